// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/accidents"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestFailures_Survived requires that a guest goes on while virt-handler and kubelet start again.
func TestFailures_Survived(t *testing.T) {
	w := newWorker(t)
	w.recordStates(t)
	node := w.awaitRunning(t)
	w.awaitCount(t, 1)

	for program, reason := range map[string]string{
		"virt-handler": "the DaemonSet starts it again; it finds the guest",
		"kubelet":      "kubelet finds the pods that run",
	} {
		t.Run(program, func(t *testing.T) {
			before := w.instance(t)
			kill(t, node, program)
			w.awaitCount(t, w.awaitCount(t, 1)+3)
			require.Equal(t, before.UID, w.instance(t).UID, reason)
			require.Equal(t, before.Status.NodeName, w.instance(t).Status.NodeName, reason)
		})
	}

	w.remove(t)
}

// TestAccidents_Always requires of real nodes what is also required of the simulation.
func TestAccidents_Always(t *testing.T) {
	w := newMachine(t, noUserData, importedSpec(corev1.ReadWriteMany, 0))
	w.recordStates(t)
	w.victim().Always(t)
	w.AwaitEnd(t)
}

// TestAccidents_Once is the same for a guest that KubeVirt does not start again.
func TestAccidents_Once(t *testing.T) {
	w := newWorker(t)
	w.recordStates(t)
	w.victim().Once(t)
	w.AwaitEnd(t)
}

func (w *worker) victim() *accidents.Victim {
	return &accidents.Victim{Shoot: w.Shoot, Pool: pool, Plane: plane{w}}
}

// plane are the real nodes.
type plane struct{ *worker }

// KillGuest implements accidents.Plane.
func (plane) KillGuest(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	kill(t, instance.Status.NodeName, "qemu-system-x86_64")
}

// KillLauncher implements accidents.Plane.
func (plane) KillLauncher(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	kill(t, instance.Status.NodeName, "virt-launcher")
}

// CutPower implements accidents.Plane.
func (plane) CutPower(t *testing.T, node string) {
	t.Helper()
	require.NoError(t, harness.Lab().Nodes.Kill(t.Context(), node))
}

// Boot implements accidents.Plane.
func (plane) Boot(t *testing.T, node string) {
	t.Helper()
	require.NoError(t, harness.Lab().Nodes.Boot(t.Context(), node))
}

// RequireAlive implements accidents.Plane: the guest counts.
func (p plane) RequireAlive(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	harness.Eventually(t, instance.Name+" counts", func(ctx context.Context) (bool, error) {
		counts, err := p.countsOn(ctx, instance.Name)

		return len(counts) > 0, err
	})
}

// kill ends the only process of a program on a node.
func kill(t *testing.T, node, program string) {
	t.Helper()

	killed, err := harness.Lab().Nodes.KillProgram(node, program)
	require.NoError(t, err)
	require.Equal(t, 1, killed, "processes of %s on %s", program, node)
}

func noUserData(*testing.T, *harness.Shoot) string { return "#cloud-config\n" }
