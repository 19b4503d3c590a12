package providercluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// markedInstance returns an instance that is to leave its node, whose guest agent lists an interface for each of 110 pods.
func markedInstance(name string) kubevirtv1.VirtualMachineInstance {
	instance := kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "machines", UID: types.UID(name), ResourceVersion: "1"},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: "host", EvacuationNodeName: "host"},
	}

	for i := range 110 {
		instance.Status.Interfaces = append(instance.Status.Interfaces, kubevirtv1.VirtualMachineInstanceNetworkInterface{
			InterfaceName: fmt.Sprintf("cali%011x", i), InfoSource: "guest-agent",
			IPs: []string{"fe80::ecee:eeff:feee:eeee", "169.254.1.1"},
		})
	}

	return instance
}

// serveInstances returns the kubeconfig of a server that has these instances, and no migrations. It lists in pages, as API servers do.
func serveInstances(t *testing.T, all ...kubevirtv1.VirtualMachineInstance) []byte {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		switch {
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // It lists.
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

	return kubeconfigOf(t, clusterOf(server))
}

func pageOfInstances(r *http.Request, all []kubevirtv1.VirtualMachineInstance) any {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	list := kubevirtv1.VirtualMachineInstanceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: all[from:]}

	if limit > 0 && limit < len(list.Items) {
		list.Items, list.Continue = list.Items[:limit], strconv.Itoa(from+limit)
	}

	return list
}

func watchInstances(t *testing.T, all ...kubevirtv1.VirtualMachineInstance) spi.Evacuations {
	t.Helper()

	p := New(Options{Clients: providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 100, RetryFor: 15 * time.Second})})

	seen, err := p.WatchEvacuations(t.Context(), &spi.WatchEvacuationsInput{
		Kubeconfig: serveInstances(t, all...), Identity: spi.Identity{Cluster: "shoot", Role: "node"},
	}, func() {})
	require.NoError(t, err)

	return seen
}

// TestFatInstancesAreSeen shows that what the guests of a large shoot tell of themselves does not outgrow the bound of an answer.
func TestFatInstancesAreSeen(t *testing.T) {
	t.Parallel()

	var all []kubevirtv1.VirtualMachineInstance
	for i := range 120 {
		all = append(all, markedInstance(fmt.Sprintf("m%d", i)))
	}

	seen := watchInstances(t, all...)
	require.Eventually(t, func() bool {
		list, complete := seen.List()

		return complete && len(list) == len(all)
	}, 30*time.Second, 10*time.Millisecond)
}

// TestTerminatingInstancesLeaveAnyway shows that nothing more is done to a guest that is being shut down.
func TestTerminatingInstancesLeaveAnyway(t *testing.T) {
	t.Parallel()

	stays, goes := markedInstance("stays"), markedInstance("goes")
	goes.DeletionTimestamp = ptr.To(metav1.Now())
	seen := watchInstances(t, stays, goes)

	var list []spi.Evacuation

	require.Eventually(t, func() bool {
		var complete bool
		list, complete = seen.List()

		return complete
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, []spi.Evacuation{{Machine: "stays", UID: "stays", Node: "host"}}, list)

	for name, want := range map[types.UID]bool{"stays": true, "goes": false} {
		stands, err := seen.Confirm(t.Context(), &spi.Evacuation{Machine: string(name), UID: name, Node: "host"})
		require.NoError(t, err)
		require.Equal(t, want, stands, name)
	}
}

func TestDeletionMatters(t *testing.T) {
	t.Parallel()

	was := markedInstance("m")
	is := was.DeepCopy()
	is.DeletionTimestamp = ptr.To(metav1.Now())
	require.True(t, matters(&was, is), "somebody has to look")
}
