// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestJudge_RelatedEvidenceAtReadTime tests an importer that failed once, and may have recovered since
// the evidence was read.
func TestJudge_RelatedEvidenceAtReadTime(t *testing.T) {
	t.Parallel()

	const grace = 30 * time.Second

	failed := time.Now().Truncate(time.Second)
	p := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(failed.Add(2 * time.Minute)), UnschedulableGrace: grace})
	state := func(read time.Duration) *evidence {
		return &evidence{
			Evidence: diagnose.Evidence{
				VirtualMachine: &kubevirtv1.VirtualMachine{},
				DataVolumes: []cdiv1beta1.DataVolume{{
					ObjectMeta: metav1.ObjectMeta{Name: "disk"},
					Status: cdiv1beta1.DataVolumeStatus{
						Phase: cdiv1beta1.ImportInProgress,
						Conditions: []cdiv1beta1.DataVolumeCondition{{
							Type:               cdiv1beta1.DataVolumeRunning,
							Status:             corev1.ConditionFalse,
							Reason:             "Error",
							Message:            "Unable to connect: 404",
							LastTransitionTime: metav1.NewTime(failed),
						}},
					},
				}},
			},
			readAt: failed.Add(read),
		}
	}

	require.Nil(t, p.judge(state(grace)).failure, "it had not lasted for the grace period when it was read")
	require.Zero(t, p.judge(state(grace)).next, "only evidence that is read again can become reportable")
	require.NotNil(t, p.judge(state(2*grace)).failure, "it had lasted for the grace period when it was read")
}

// TestJudge_SchedulerConditionsNow tests a pod that was read before its kubelet started it. The pod's
// conditions remain valid, unlike the status of its containers.
func TestJudge_SchedulerConditionsNow(t *testing.T) {
	t.Parallel()

	const grace = 30 * time.Second

	bound := time.Now().Truncate(time.Second)
	p := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(bound.Add(2 * time.Minute)), UnschedulableGrace: grace})
	unschedulable := kubevirtv1.VirtualMachineInstanceCondition{
		Type:               kubevirtv1.VirtualMachineInstanceConditionType(corev1.PodScheduled),
		Status:             corev1.ConditionFalse,
		Reason:             corev1.PodReasonUnschedulable,
		Message:            "0/3 nodes are available: 3 Insufficient cpu.",
		LastTransitionTime: metav1.NewTime(bound),
	}
	state := func(read time.Duration, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *evidence {
		return &evidence{
			Evidence: diagnose.Evidence{
				VirtualMachine: &kubevirtv1.VirtualMachine{},
				Instance: &kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{
					ActivePods: map[types.UID]string{"pod": "node"},
					Conditions: conditions,
				}},
				Pods: []corev1.Pod{{
					Spec: corev1.PodSpec{NodeName: "node"},
					Status: corev1.PodStatus{
						Phase: corev1.PodPending,
						Conditions: []corev1.PodCondition{{
							Type:               corev1.PodScheduled,
							Status:             corev1.ConditionTrue,
							LastTransitionTime: metav1.NewTime(bound),
						}},
					},
				}},
			},
			readAt: bound.Add(read),
		}
	}

	require.Nil(t, p.judge(state(grace)).failure, "it had not lasted for the grace period when it was read")
	require.Equal(t, "NodeDown", p.judge(state(2*grace)).failure.Reason)
	require.Nil(t, p.judge(state(grace, unschedulable)).failure, "the pod has its place: what KubeVirt shows is of the past")
}

// TestProgressOf_Stalled has a clone without progress for longer than other obstacles may last: it is told, and
// no failure.
func TestProgressOf_Stalled(t *testing.T) {
	t.Parallel()

	const grace = 30 * time.Second

	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := NewMachines(nil, nil, Options{Clock: clocktesting.NewFakeClock(began.Add(time.Hour)), UnschedulableGrace: grace})
	state := func(read time.Duration) *evidence {
		return &evidence{
			Evidence: diagnose.Evidence{
				VirtualMachine: &kubevirtv1.VirtualMachine{Status: kubevirtv1.VirtualMachineStatus{PrintableStatus: kubevirtv1.VirtualMachineStatusProvisioning}},
				DataVolumes: []cdiv1beta1.DataVolume{{
					ObjectMeta: metav1.ObjectMeta{Name: "disk", Namespace: "machines", CreationTimestamp: metav1.NewTime(began)},
					Status:     cdiv1beta1.DataVolumeStatus{Phase: cdiv1beta1.CSICloneInProgress, Progress: "N/A"},
				}},
			},
			readAt: began.Add(read),
		}
	}

	require.Equal(t, "Provisioning", p.progressOf(state(9*grace)).Reason)

	stalled := p.progressOf(state(10 * grace))
	require.Equal(t, diagnose.VolumeStalled, stalled.Reason)
	require.Contains(t, stalled.Message, "no progress since 2026-01-02T03:04:05Z")
	require.Contains(t, stalled.Message, "kubectl --namespace=machines describe datavolume disk")
	require.Equal(t, stalled, p.progressOf(state(20*grace)), "the same Event is not recorded again")
	require.Nil(t, p.judge(state(20*grace)).failure)
}

func TestVerdict_Final(t *testing.T) {
	t.Parallel()

	quota := &spi.Error{Reason: "QuotaExceeded"}

	for name, tc := range map[string]struct {
		reason  string
		verdict verdict
		known   string
		want    bool
	}{
		"Initialized": {reason: "the machine is ready", verdict: verdict{initialized: true}, want: true},
		"Nothing":     {reason: "the machine may become ready during the wait", verdict: verdict{}},
		"NewFailure":  {reason: "it is reported at once", verdict: verdict{failure: quota}, want: true},
		"Another":     {reason: "it has replaced the one that was reported", verdict: verdict{failure: quota}, known: "NodeDown", want: true},
		"Reported":    {reason: "it may end during the wait", verdict: verdict{failure: quota}, known: "QuotaExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, tc.verdict.final(tc.known), tc.reason)
		})
	}
}
