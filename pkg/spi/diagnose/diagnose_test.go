package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

func TestMachine(t *testing.T) {
	t.Parallel()

	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	quota := "failed to create virtual machine pod: pods is forbidden: exceeded quota: q, requested: pods=1"
	instance := func(conditions ...kubevirtv1.VirtualMachineInstanceCondition) *kubevirtv1.VirtualMachineInstance {
		for i := range conditions {
			conditions[i].LastTransitionTime = metav1.NewTime(since)
		}

		return &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{Conditions: conditions}}
	}
	vm := func(message string) *kubevirtv1.VirtualMachine {
		return &kubevirtv1.VirtualMachine{Status: kubevirtv1.VirtualMachineStatus{Conditions: []kubevirtv1.VirtualMachineCondition{{
			Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: message, LastTransitionTime: metav1.NewTime(since),
		}}}}
	}

	tests := map[string]struct {
		reason   string
		vm       *kubevirtv1.VirtualMachine
		instance *kubevirtv1.VirtualMachineInstance
		want     string
	}{
		"Nothing": {"a new machine is merely new", &kubevirtv1.VirtualMachine{}, nil, ""},
		"Unschedulable": {"no provider node has room", vm(""), instance(kubevirtv1.VirtualMachineInstanceCondition{
			Type: "PodScheduled", Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/5 nodes are available",
		}), "Unschedulable"},
		"PodQuota": {"KubeVirt cannot make the pod", vm(""), instance(kubevirtv1.VirtualMachineInstanceCondition{
			Type: kubevirtv1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse, Reason: "FailedCreate", Message: quota,
		}), "QuotaExceeded"},
		"ClaimNotSeenYet": {
			"KubeVirt's own word for a claim that is not in its cache yet", vm(""),
			&kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
				Conditions: []kubevirtv1.VirtualMachineInstanceCondition{{
					Type: "PodScheduled", Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "PVC ns/m does not exist",
				}},
			}}, "",
		},
		"ClaimQuota":   {"CDI cannot make the claim", vm(quota), nil, "QuotaExceeded"},
		"OtherFailure": {"not a matter of room", vm("not authorized"), nil, ""},
		"StaleFailure": {"an instance exists: what the VM shows is older", vm(quota), instance(), ""},
		"Scheduled": {"the condition says yes", vm(""), instance(kubevirtv1.VirtualMachineInstanceCondition{
			Type: "PodScheduled", Status: corev1.ConditionTrue, Reason: corev1.PodReasonUnschedulable,
		}), ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := diagnose.Machine(tc.vm, tc.instance)
			if tc.want == "" {
				require.Nil(t, got, tc.reason)

				return
			}

			require.NotNil(t, got, tc.reason)
			require.Equal(t, tc.want, got.Reason, tc.reason)
			require.ErrorIs(t, got, spi.ErrExhausted, "cluster-autoscaler backs off on this")
			require.Equal(t, since, got.Since, "its age is the condition's own")
		})
	}
}
