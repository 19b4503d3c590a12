// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestReachedBy(t *testing.T) {
	t.Parallel()

	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return made.Add(time.Duration(seconds) * time.Second) }
	at := func(phase kubevirtv1.VirtualMachineInstancePhase, seconds int) kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp {
		return kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(after(seconds))}
	}
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}}

	require.Equal(t, spi.Reached{Created: made}, reachedBy(vm, nil), "there is no instance before the disks are there")

	instance := &kubevirtv1.VirtualMachineInstance{}
	instance.Status.PhaseTransitionTimestamps = append(instance.Status.PhaseTransitionTimestamps, at(kubevirtv1.Pending, 1))
	require.Equal(t, spi.Reached{Created: made}, reachedBy(vm, instance), "or there is one, which waits for them")

	instance.Status.PhaseTransitionTimestamps = append(instance.Status.PhaseTransitionTimestamps,
		at(kubevirtv1.Scheduling, 60), at(kubevirtv1.Scheduled, 65))
	require.Equal(t, spi.Reached{Created: made, Disks: after(60), Scheduled: after(65)}, reachedBy(vm, instance))

	instance.Status.PhaseTransitionTimestamps = append(instance.Status.PhaseTransitionTimestamps, at(kubevirtv1.Running, 67))
	require.Equal(t, after(67), reachedBy(vm, instance).Running)
}

func TestInitialized(t *testing.T) {
	t.Parallel()

	once := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: ptr.To(kubevirtv1.RunStrategyOnce)}}
	synchronized := kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceSynchronized,
		Status: corev1.ConditionFalse,
	}

	tests := map[string]struct {
		reason string
		status kubevirtv1.VirtualMachineInstanceStatus
		want   bool
	}{
		"Scheduling": {reason: "it has no provider node", status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Scheduling}},
		"Scheduled":  {reason: "its guest starts", status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Scheduled, NodeName: "host"}, want: true},
		"NotStarted": {
			reason: "its guest cannot start",
			status: kubevirtv1.VirtualMachineInstanceStatus{
				Phase:      kubevirtv1.Scheduled,
				NodeName:   "host",
				Conditions: []kubevirtv1.VirtualMachineInstanceCondition{synchronized},
			},
		},
		"Failed": {reason: "its guest has ended for good", status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Failed, NodeName: "host"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, initialized(once, &kubevirtv1.VirtualMachineInstance{Status: tc.status}, false), tc.reason)
		})
	}
}
