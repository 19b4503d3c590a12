package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

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
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, stepOf(tc.instance), tc.reason)
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
