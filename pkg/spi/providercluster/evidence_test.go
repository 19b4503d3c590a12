package providercluster

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

func TestStepOf(t *testing.T) {
	t.Parallel()

	instance := func(phase kubevirtv1.VirtualMachineInstancePhase, node string, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *kubevirtv1.VirtualMachineInstance {
		return &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: phase, ActivePods: map[types.UID]string{"pod": node}, Conditions: conditions,
		}}
	}
	unscheduled := kubevirtv1.VirtualMachineInstanceCondition{
		Type: kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled), Status: corev1.ConditionFalse,
	}

	tests := map[string]struct {
		reason   string
		instance *kubevirtv1.VirtualMachineInstance
		want     step
	}{
		"None":        {"the volumes are being made", nil, ""},
		"Pending":     {"a pod that only makes volumes bind", instance(kubevirtv1.Pending, "node"), ""},
		"Waits":       {"the pod waits for volumes that bind late", instance(kubevirtv1.Scheduling, ""), ""},
		"Unscheduled": {"the scheduler says why", instance(kubevirtv1.Scheduling, "", unscheduled), "pod"},
		"Starts":      {"the pod is on its node", instance(kubevirtv1.Scheduling, "node"), "pod"},
		"Failed":      {"the pod has to end", instance(kubevirtv1.Failed, "node"), "pod"},
		"Ended":       {"there is no pod any more", &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Failed}}, ""},
		"Scheduled":   {"virt-handler has it", instance(kubevirtv1.Scheduled, "node"), ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, stepOf(tc.instance), tc.reason)
		})
	}
}

// silent is a provider cluster that answers what begins a look at a machine's volumes, and nothing else.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/datavolumes") {
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1",
				"items":[{"metadata":{"name":"disk","namespace":"machines"},"spec":{"source":{"pvc":{"name":"image","namespace":"images"}}}}]}`)),
		}, nil
	}

	<-r.Context().Done()

	return nil, r.Context().Err()
}

func TestEvidenceIsReadWithinOneLimit(t *testing.T) {
	t.Parallel()

	starting := &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
		Phase: kubevirtv1.Scheduling, ActivePods: map[types.UID]string{"pod": "node"},
	}}

	for reason, instance := range map[string]*kubevirtv1.VirtualMachineInstance{"the volumes are being made": nil, "the pod starts": starting} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{Clock: clock.RealClock{}, Clients: kubeconfig.NewCache(kubeconfig.Options{
				QPS: 100, Burst: 200, WrapTransport: func(http.RoundTripper) http.RoundTripper { return silent{} },
			})})
			s, err := p.connect(kubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"}))
			require.NoError(t, err)

			began := time.Now()
			found := s.evidence(t.Context(), &spi.ObserveMachineInput{Name: "m", Identity: spi.Identity{Cluster: "c", Role: "node"}}, instance)
			require.Equal(t, evidenceTimeout, time.Since(began), reason)
			require.Equal(t, instance == nil, len(found.DataVolumes) == 1, "what was read in time counts")
		})
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	f := newFiles(clock)

	require.True(t, f.due("m", time.Minute))
	require.False(t, f.due("m", time.Minute), "not that often")
	require.True(t, f.due("other", time.Minute), "each machine for itself")

	found := finding{Evidence: diagnose.Evidence{DataVolumes: []cdiv1beta1.DataVolume{{}}}}
	f.keep("m", "", found)
	found, read := f.found("m", "")
	require.Len(t, found.DataVolumes, 1)
	require.False(t, read.IsZero())

	found, read = f.found("m", "pod")
	require.Empty(t, found.DataVolumes, "the machine stands elsewhere now")
	require.True(t, read.IsZero())

	f.report("m", "QuotaExceeded")
	require.Equal(t, "QuotaExceeded", f.reported("m"))

	clock.Step(time.Minute)
	require.True(t, f.due("m", time.Minute))

	clock.Step(closeAfter + time.Second)
	require.Empty(t, f.reported("other"))
	require.Empty(t, f.reported("m"), "nobody has asked about it for long")
}
