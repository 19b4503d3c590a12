// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
