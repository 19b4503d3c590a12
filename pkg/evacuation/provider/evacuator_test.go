// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// markedInstance returns an instance that is marked for evacuation, whose guest agent lists an
// interface for each of 110 pods.
func markedInstance(name string) kubevirtv1.VirtualMachineInstance {
	instance := kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "machines", UID: types.UID(name), ResourceVersion: "1"},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: "host", EvacuationNodeName: "host"},
	}

	for i := range 110 {
		instance.Status.Interfaces = append(instance.Status.Interfaces, kubevirtv1.VirtualMachineInstanceNetworkInterface{
			InterfaceName: fmt.Sprintf("cali%011x", i),
			InfoSource:    "guest-agent",
			IPs:           []string{"fe80::ecee:eeff:feee:eeee", "169.254.1.1"},
		})
	}

	return instance
}

// serveInstances returns the kubeconfig of a server that has these instances, and no migrations. It
// lists in pages, as API servers do.
func serveInstances(t *testing.T, all ...kubevirtv1.VirtualMachineInstance) []byte {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // The client falls back to a list.
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()

			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "migrations"):
			_ = json.NewEncoder(w).Encode(kubevirtv1.VirtualMachineInstanceMigrationList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
		case !strings.HasSuffix(r.URL.Path, "instances"):
			_ = json.NewEncoder(w).Encode(all[slices.IndexFunc(all, func(instance kubevirtv1.VirtualMachineInstance) bool {
				return strings.HasSuffix(r.URL.Path, "/"+instance.Name)
			})])
		default:
			_ = json.NewEncoder(w).Encode(pageOfInstances(r, all))
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	return hostile.Kubeconfig(t, server)
}

func pageOfInstances(r *http.Request, all []kubevirtv1.VirtualMachineInstance) any {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	list := kubevirtv1.VirtualMachineInstanceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: all[from:]}

	if limit > 0 && limit < len(list.Items) {
		list.Items = list.Items[:limit]
		list.Continue = strconv.Itoa(from + limit)
	}

	return list
}

func watchInstances(t *testing.T, all ...kubevirtv1.VirtualMachineInstance) spi.Evacuations {
	t.Helper()

	p := New(providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 100, RetryFor: 15 * time.Second}))

	evacuations, err := p.WatchEvacuations(t.Context(), &spi.WatchEvacuationsInput{
		Kubeconfig: serveInstances(t, all...),
		Identity:   spi.Identity{Cluster: "shoot", Role: "node"},
	}, func() {})
	require.NoError(t, err)

	return evacuations
}

// TestWatchEvacuations_LargeInstances shows that the guest agents' data of a large shoot does not exceed the limit
// of a response.
func TestWatchEvacuations_LargeInstances(t *testing.T) {
	t.Parallel()

	var all []kubevirtv1.VirtualMachineInstance
	for i := range 120 {
		all = append(all, markedInstance(fmt.Sprintf("m%d", i)))
	}

	evacuations := watchInstances(t, all...)
	require.Eventually(t, func() bool {
		list, complete := evacuations.List()

		return complete && len(list) == len(all)
	}, 30*time.Second, 10*time.Millisecond)
}

// TestList_ShuttingDown shows that a guest that is being shut down is not evacuated, but counts until it has
// left the node.
func TestList_ShuttingDown(t *testing.T) {
	t.Parallel()

	running := markedInstance("running")
	terminating := markedInstance("terminating")
	gone := markedInstance("gone")
	terminating.DeletionTimestamp = ptr.To(metav1.Now())
	gone.DeletionTimestamp = ptr.To(metav1.Now())
	gone.Status.Phase = kubevirtv1.Succeeded
	evacuations := watchInstances(t, running, terminating, gone)

	var list []spi.Evacuation

	require.Eventually(t, func() bool {
		var complete bool
		list, complete = evacuations.List()

		return complete
	}, 30*time.Second, 10*time.Millisecond)
	require.ElementsMatch(t, []spi.Evacuation{
		{Machine: "running", UID: "running", Node: "host"}, {Machine: "terminating", UID: "terminating", Node: "host", ShuttingDown: true},
	}, list)

	for name, want := range map[types.UID]bool{"running": true, "terminating": false} {
		necessary, err := evacuations.Confirm(t.Context(), &spi.Evacuation{Machine: string(name), UID: name, Node: "host"})
		require.NoError(t, err)
		require.Equal(t, want, necessary, name)
	}
}

// TestList_Conditions has an instance whose conditions became true at different times.
func TestList_Conditions(t *testing.T) {
	t.Parallel()

	requested := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())
	condition := func(of kubevirtv1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus, since metav1.Time) kubevirtv1.VirtualMachineInstanceCondition {
		return kubevirtv1.VirtualMachineInstanceCondition{Type: of, Status: status, Message: "reason of " + string(of), LastTransitionTime: since}
	}
	earlier := metav1.NewTime(requested.Add(-time.Hour))

	for name, tc := range map[string]struct {
		conditions []kubevirtv1.VirtualMachineInstanceCondition
		want       spi.Evacuation
	}{
		"Requested": {
			conditions: []kubevirtv1.VirtualMachineInstanceCondition{
				condition(kubevirtv1.VirtualMachineInstanceEvictionRequested, corev1.ConditionTrue, requested),
				condition(kubevirtv1.VirtualMachineInstanceIsMigratable, corev1.ConditionTrue, earlier),
				condition(kubevirtv1.VirtualMachineInstanceReady, corev1.ConditionTrue, earlier),
			},
			want: spi.Evacuation{RequestedAt: requested.Time, Migratable: true},
		},
		"NotReported": {
			conditions: []kubevirtv1.VirtualMachineInstanceCondition{
				condition(kubevirtv1.VirtualMachineInstanceEvictionRequested, corev1.ConditionFalse, requested),
				condition(kubevirtv1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse, earlier),
				condition(kubevirtv1.VirtualMachineInstanceReady, corev1.ConditionTrue, earlier),
			},
			want: spi.Evacuation{NotMigratableReason: "reason of LiveMigratable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			instance := markedInstance("m")
			instance.Status.Conditions = tc.conditions
			evacuations := watchInstances(t, instance)

			var list []spi.Evacuation

			require.Eventually(t, func() bool {
				var complete bool
				list, complete = evacuations.List()

				return complete
			}, 30*time.Second, 10*time.Millisecond)

			tc.want.Machine = "m"
			tc.want.UID = "m"
			tc.want.Node = "host"
			require.Equal(t, []spi.Evacuation{tc.want}, list)
		})
	}
}

func TestIsRelevantChange_Deletion(t *testing.T) {
	t.Parallel()

	before := markedInstance("m")
	after := before.DeepCopy()
	after.DeletionTimestamp = ptr.To(metav1.Now())
	require.True(t, isRelevantChange(&before, after), "no further action is taken for a terminating instance")
}

// TestWatchEvacuations_RetriesWatch watches a server that requests a retry after an hour, and whose
// lists have pages that refer to themselves.
func TestWatchEvacuations_RetriesWatch(t *testing.T) {
	t.Parallel()

	var (
		mu       sync.Mutex
		requests int
	)

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") || strings.HasSuffix(r.URL.Path, "migrations") {
			mu.Lock()
			requests++
			mu.Unlock()
			hostile.Answers()["RetryAfter"].Serve(w, r)

			return
		}

		hostile.Answers()["Circle"].Serve(w, r)
	}))
	t.Cleanup(server.Close)

	p := New(providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 100}))
	seen, err := p.WatchEvacuations(t.Context(), &spi.WatchEvacuationsInput{
		Kubeconfig: hostile.Kubeconfig(t, server),
		Identity:   spi.Identity{Cluster: "c", Role: "node"},
	}, func() {})
	require.NoError(t, err)

	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()

		return requests > 2
	}, time.Minute, 10*time.Millisecond, "requests are retried within a minute")

	_, complete := seen.List()
	require.False(t, complete, "an incomplete list is not used")
}

// TestMaintainMigrations_DeletesByUID deletes a migration using the cached object, which has no
// finalizers and may be stale. The driver has no permission to get migrations.
func TestMaintainMigrations_DeletesByUID(t *testing.T) {
	t.Parallel()

	var (
		mu       sync.Mutex
		requests []string
		received metav1.DeleteOptions
	)

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()

		requests = append(requests, r.Method)
		_ = json.NewDecoder(r.Body).Decode(&received)

		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	}))
	t.Cleanup(server.Close)

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 100}).For(hostile.Kubeconfig(t, server))
	require.NoError(t, err)

	pending := migrationFor("a", transition{kubevirtv1.MigrationPending, 0})
	pending.UID = "u"
	pending.ResourceVersion = "7"
	pending.Finalizers = []string{"f"}

	e := newEvacuations(t, nil, trimMigration(pending))
	e.clients = clients
	require.NoError(t, e.CancelMigration(t.Context(), &spi.Evacuation{Machine: "a", UID: "a", Node: "host"}))

	mu.Lock()
	defer mu.Unlock()

	require.Equal(t, []string{http.MethodDelete}, requests)
	require.Equal(t, metav1.NewUIDPreconditions("u"), received.Preconditions)
}

// TestEvacuator_IsSameUser compares the users that the tokens claim to be of.
func TestEvacuator_IsSameUser(t *testing.T) {
	t.Parallel()

	of := func(claims string) []byte {
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"

		return hostile.KubeconfigWith(t, func(_, user, _ map[string]any) { user["token"] = token })
	}

	e := New(providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1}))
	require.True(t, e.IsSameUser(of(`{"sub":"a","jti":"1"}`), of(`{"sub":"a","jti":"2"}`)))
	require.False(t, e.IsSameUser(of(`{"sub":"a"}`), of(`{"sub":"b"}`)))
	require.False(t, e.IsSameUser(of(`{}`), of(`{}`)), "the users are not known")
	require.False(t, e.IsSameUser([]byte("{"), of(`{"sub":"a"}`)))
}
