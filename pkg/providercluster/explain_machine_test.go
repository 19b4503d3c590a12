// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// readOnly is a provider cluster that permits only reads, and not of all objects. It has no
// instances.
type readOnly struct {
	*answers

	t *testing.T
	// forbidden are the last elements of the paths that may not be read.
	forbidden []string
}

func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	require.Equal(r.t, http.MethodGet, request.Method)

	switch last := path.Base(request.URL.Path); {
	case slices.Contains(r.forbidden, last):
		return &http.Response{StatusCode: http.StatusForbidden, Request: request, Body: http.NoBody}, nil
	case strings.Contains(request.URL.Path, "/virtualmachineinstances/"):
		return (&answers{}).RoundTrip(request)
	default:
		return r.answers.RoundTrip(request)
	}
}

// explained explains a machine on a provider cluster that responds with these bodies.
func explained(t *testing.T, cluster *answers, forbidden ...string) (*spi.Explanation, error) {
	t.Helper()

	return explainedBy(t, readOnly{cluster, t, forbidden})
}

func explainedBy(t *testing.T, cluster http.RoundTripper) (*spi.Explanation, error) {
	t.Helper()

	clients := providerapi.NewCache(providerapi.Options{
		QPS:           100,
		Burst:         200,
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster },
	})

	return NewExplainer(clients, clock.RealClock{}, 30*time.Second).ExplainMachine(t.Context(), &spi.ExplainMachineInput{
		Kubeconfig: hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}),
		Name:       "m",
		Identity:   spi.Identity{Cluster: "c", Role: "node"},
	})
}

// ownVM is a machine's VirtualMachine.
const ownVM = `{"kind":"VirtualMachine","apiVersion":"kubevirt.io/v1","metadata":{"name":"m","namespace":"machines","uid":"vm",
	"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}},
	"status":{"printableStatus":"Provisioning","conditions":[{"type":"Failure","status":"True","reason":"FailedCreate",
		"message":"something new","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`

func TestExplainer_OnlyReads(t *testing.T) {
	t.Parallel()

	cluster := &answers{bodies: map[string]string{
		"m": ownVM, "datavolumes": `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[]}`,
		"pods": `{"kind":"PodList","apiVersion":"v1","items":[]}`, "events": `{"kind":"EventList","apiVersion":"v1","items":[]}`,
	}}

	got, err := explained(t, cluster)
	require.NoError(t, err)
	require.Equal(t, "machines", got.Namespace)
	require.Equal(t, "https://provider.example.com:443", got.Server)
	require.LessOrEqual(t, len(cluster.asked), 8)
	require.Empty(t, got.Unread)
}

// TestExplainer_UnreadObjects explains a machine with the Role of an older release.
func TestExplainer_UnreadObjects(t *testing.T) {
	t.Parallel()

	got, err := explained(t, &answers{bodies: map[string]string{"m": ownVM}}, "datavolumes", "pods", "events")
	require.NoError(t, err)
	require.NotEmpty(t, got.Unread)
	require.Contains(t, strings.Join(got.Unread, "\n"), "list DataVolumes: ")
}

// TestExplainer_ForeignMachine explains a VirtualMachine of another shoot.
func TestExplainer_ForeignMachine(t *testing.T) {
	t.Parallel()

	cluster := &answers{bodies: map[string]string{"m": strings.Replace(ownVM, `cluster":"c"`, `cluster":"other"`, 1)}}
	got, err := explained(t, cluster)
	require.ErrorIs(t, err, spi.ErrForeign)
	require.Nil(t, got)
	require.Equal(t, []string{"m"}, cluster.asked, "nothing more is read of it")
}

// TestExplainDeletion explains a VirtualMachine whose deletion began long ago, or just now.
func TestExplainDeletion(t *testing.T) {
	t.Parallel()

	deleting := func(since time.Time) *answers {
		return &answers{bodies: map[string]string{"m": strings.Replace(ownVM, `"uid":"vm",`,
			`"uid":"vm","finalizers":["example.com/held"],"deletionTimestamp":"`+since.UTC().Format(time.RFC3339)+`",`, 1)}}
	}

	long, err := explained(t, deleting(time.Now().Add(-time.Hour)))
	require.NoError(t, err)
	require.Equal(t, spi.StageDeleting, long.Stage)
	require.ErrorIs(t, long.Cause.Err, spi.ErrTimeout)
	require.ErrorContains(t, long.Cause.Err, "example.com/held", "what blocks is named")

	fresh, err := explained(t, deleting(time.Now()))
	require.NoError(t, err)
	require.Nil(t, fresh.Cause, "a guest has time to shut down")
	require.Contains(t, fresh.Waiting, "example.com/held")
}

// TestExplainMachine_DrainOfLastNode explains a running machine whose zone has no other node: with the
// driver's Role, which does not permit to list migrations, and with the one for evacuations.
func TestExplainMachine_DrainOfLastNode(t *testing.T) {
	t.Parallel()

	const (
		running = `{"kind":"VirtualMachineInstance","apiVersion":"kubevirt.io/v1","metadata":{"name":"m","namespace":"machines","uid":"vmi",
			"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}},
			"status":{"phase":"Running","nodeName":"node-a","evacuationNodeName":"node-a","activePods":{"left":"node-b","source":"node-a","target":""}}}`
		pods = `{"kind":"PodList","apiVersion":"v1","items":[
			{"metadata":{"name":"launcher-0","namespace":"machines","uid":"left"},"spec":{"nodeName":"node-b"},"status":{"phase":"Succeeded"}},
			{"metadata":{"name":"launcher-1","namespace":"machines","uid":"source"},"spec":{"nodeName":"node-a"},"status":{"phase":"Running"}},
			{"metadata":{"name":"launcher-2","namespace":"machines","uid":"target","labels":{"kubevirt.io/migrationJobUID":"x"},
				"annotations":{"kubevirt.io/migrationJobName":"evacuation-1"}},
				"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
					"message":"0/3 nodes are available: 1 node(s) were unschedulable","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}]}`
		migrations = `{"kind":"VirtualMachineInstanceMigrationList","apiVersion":"kubevirt.io/v1","items":[
			{"metadata":{"name":"evacuation-1","namespace":"machines"},"status":{"phase":"Scheduling"}}]}`
		review = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	)

	for name, allowed := range map[string]bool{"DriversRole": false, "EvacuationsRole": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cluster := &answers{bodies: map[string]string{
				"m": strings.NewReplacer(`"conditions"`, `"unused"`).Replace(ownVM), "pods": pods, "virtualmachineinstancemigrations": migrations,
				"datavolumes": `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[]}`,
				"events":      `{"kind":"EventList","apiVersion":"v1","items":[]}`,
			}}
			if allowed {
				cluster.bodies["selfsubjectaccessreviews"] = review
			}

			got, err := explainedBy(t, evacuating{cluster, running})
			require.NoError(t, err)
			require.Equal(t, spi.StageScheduled, got.Stage)
			require.NotNil(t, got.Cause)
			require.Equal(t, "MigrationUnschedulable", got.Cause.Err.Reason)
			require.Contains(t, got.Waiting, "marked for its evacuation from provider node node-a")
			require.Equal(t, allowed, slices.Contains(cluster.asked, "virtualmachineinstancemigrations"), "a forbidden request is not sent")
			require.Equal(t, !allowed, strings.Contains(strings.Join(got.Unread, ""), "kubernetes/evacuation/provider-namespace"))
			require.Equal(t, allowed, slices.ContainsFunc(got.Objects, func(o spi.Object) bool { return o.Role == "live migration" }))
			require.False(t, slices.ContainsFunc(got.Objects, func(o spi.Object) bool { return o.Name == "launcher-0" }), "an earlier migration has left it")
		})
	}
}

// evacuating is a provider cluster with one instance.
type evacuating struct {
	*answers

	instance string
}

func (e evacuating) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/virtualmachineinstances/") {
		return (&answers{bodies: map[string]string{"m": e.instance}}).RoundTrip(request)
	}

	return e.answers.RoundTrip(request)
}

// TestExplainVolumes explains a volume that waits, and one whose storage class does not exist.
func TestExplainVolumes(t *testing.T) {
	t.Parallel()

	volumes := `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[
		` + strings.Repeat(`{"metadata":{"name":"pvc-1","namespace":"machines"},"status":{"phase":"Succeeded"}},`, 600) + `
		{"metadata":{"name":"pvc-2","namespace":"machines"},"status":{"phase":"PendingPopulation"}},
		{"metadata":{"name":"pvc-3","namespace":"machines","creationTimestamp":"2026-01-02T03:04:05Z"},"status":{"phase":"Pending","conditions":[
			{"type":"Running","status":"False","reason":"ErrClaimNotValid","message":"no storageClass to choose profile","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}]}`

	cluster := &answers{bodies: map[string]string{"datavolumes": volumes, "events": `{"kind":"EventList","apiVersion":"v1","items":[]}`}}
	clients := providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 200, WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster }})

	got, err := NewExplainer(clients, clock.RealClock{}, 30*time.Second).ExplainVolumes(t.Context(), &spi.ExplainVolumesInput{
		Kubeconfig: hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}),
		Labels:     map[string]string{"cluster": "c"},
	})
	require.NoError(t, err)
	require.Equal(t, 602, got.Count)
	require.Len(t, got.Incomplete, 2)
	require.Nil(t, got.Incomplete[0].Cause, "it waits for a pod")
	require.Equal(t, "pvc-3", got.Incomplete[1].Name)
	require.Equal(t, "StorageClassNotFound", got.Incomplete[1].Cause.Err.Reason)
}

// TestExplainVolumes_LeftClaim explains a claim of a deleted machine that a snapshot protects, with and without
// permission to list claims.
func TestExplainVolumes_LeftClaim(t *testing.T) {
	t.Parallel()

	claims := `{"kind":"PersistentVolumeClaimList","apiVersion":"v1","items":[
		` + strings.Repeat(`{"metadata":{"name":"m-old","namespace":"machines"}},`, 600) + `
		{"metadata":{"name":"m-root","namespace":"machines","deletionTimestamp":"2026-01-02T03:04:05Z",
			"finalizers":["snapshot.storage.kubernetes.io/pvc-as-source-protection"]}}]}`

	for allowed, want := range map[string]int{"true": 1, "false": 0} {
		cluster := &answers{bodies: map[string]string{
			"datavolumes": `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[]}`, "persistentvolumeclaims": claims,
			"selfsubjectaccessreviews": `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":` + allowed + `}}`,
		}}
		clients := providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 200, WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster }})

		got, err := NewExplainer(clients, clock.RealClock{}, 30*time.Second).ExplainVolumes(t.Context(), &spi.ExplainVolumesInput{
			Kubeconfig: hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}),
			Cluster:    "c",
		})
		require.NoError(t, err)
		require.Len(t, got.Incomplete, want)
		require.Empty(t, got.Unread)

		for _, left := range got.Incomplete {
			require.Equal(t, "m-root", left.Name)
			require.Equal(t, "VolumeNotDeleted", left.Cause.Err.Reason)
			require.Contains(t, left.Cause.Err.Message, "pvc-as-source-protection")
		}
	}
}

func TestWaitingFor(t *testing.T) {
	t.Parallel()

	for status, want := range map[kubevirtv1.VirtualMachinePrintableStatus]string{
		kubevirtv1.VirtualMachineStatusProvisioning:  "disks are being created",
		kubevirtv1.VirtualMachineStatusUnschedulable: "scheduler has not found a provider node",
		kubevirtv1.VirtualMachineStatusStopped:       "the VirtualMachine is Stopped; if this does not change",
	} {
		vm := &kubevirtv1.VirtualMachine{Status: kubevirtv1.VirtualMachineStatus{PrintableStatus: status}}
		require.Contains(t, waitingFor(&evidence{Evidence: diagnose.Evidence{VirtualMachine: vm}}), want)
	}
}

func TestObjectsOf_GoldenImage(t *testing.T) {
	t.Parallel()

	vm := foundVM("u", ours, "m")
	vm.Namespace = "machines"
	vm.Labels[v1alpha1.LabelGoldenImage] = "golden"

	image := func(namespace, name string) cdiv1beta1.DataVolume {
		return cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}

	var roles []string

	for _, object := range objectsOf(&evidence{Evidence: diagnose.Evidence{
		VirtualMachine: vm,
		Images: []cdiv1beta1.DataVolume{
			image("machines", "golden"), image("other", "golden"), image("machines", "other"),
		},
	}}) {
		roles = append(roles, object.Role)
	}

	require.Equal(t, []string{"", "golden image", "source of a clone", "source of a clone"}, roles)
}
