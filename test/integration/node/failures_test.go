// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// failure is an accident of a provider node, or on it.
type failure struct {
	name   string
	reason string
	happen func(t *testing.T, w *worker, node string)
	// survived is set if the guest goes on.
	survived bool
}

// failures are all that one node can suffer.
var failures = []failure{
	{name: "VirtHandler", reason: "the DaemonSet starts it again; it finds the guest", happen: killing("virt-handler"), survived: true},
	{name: "Kubelet", reason: "kubelet finds the pods that run", happen: killing("kubelet"), survived: true},
	{name: "QEMU", reason: "the guest has crashed", happen: killing("qemu-system-x86_64")},
	{name: "VirtLauncher", reason: "QEMU ends with its pod", happen: killing("virt-launcher")},
	{name: "PowerLoss", reason: "nothing is known of the guest until the node is back", happen: losePower},
	{name: "Reboot", reason: "the node is back before it was missed", happen: reboot},
}

// TestFailures_Always requires that a guest that KubeVirt starts again comes back after every failure.
func TestFailures_Always(t *testing.T) {
	w := newMachine(t, noUserData, importedSpec(corev1.ReadWriteMany, 0))
	w.recordStates(t)

	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			node := w.awaitRunning(t)
			w.awaitCount(t, 1)
			before := w.instance(t)

			f.happen(t, w, node)

			if f.survived {
				w.requireUnchanged(t, before)

				return
			}

			w.awaitInstance(t, "another instance runs: "+f.reason, func(found *kubevirtv1.VirtualMachineInstance) bool {
				return found.UID != before.UID && found.Status.Phase == kubevirtv1.Running
			})
			w.awaitCount(t, 1)
		})
	}

	w.remove(t)
}

// TestFailures_Once requires that diagnose names the end of a guest that KubeVirt does not start again, and that the machine is
// replaced when it is deleted.
func TestFailures_Once(t *testing.T) {
	w := newWorker(t)
	w.recordStates(t)

	for _, f := range failures {
		if f.survived {
			continue // as with Always
		}

		t.Run(f.name, func(t *testing.T) {
			node := w.awaitRunning(t)
			w.awaitCount(t, 1)
			f.happen(t, w, node)
			w.awaitInstance(t, "the instance has failed: "+f.reason, func(found *kubevirtv1.VirtualMachineInstance) bool {
				return found.Status.Phase == kubevirtv1.Failed
			})

			found := w.awaitCause(t, "GuestEnded")
			require.Contains(t, found.Cause.Message, "runStrategy Once")
			w.replace(t)
		})
	}

	w.remove(t)
}

func noUserData(*testing.T, *harness.Shoot) string { return "#cloud-config\n" }

// killing returns the death of a program.
func killing(program string) func(*testing.T, *worker, string) {
	return func(t *testing.T, _ *worker, node string) {
		t.Helper()

		killed, err := harness.Lab().Nodes.KillProgram(node, program)
		require.NoError(t, err)
		require.Equal(t, 1, killed, "processes of %s on %s", program, node)
	}
}

// losePower switches a node off until its loss is known, and then on again.
func losePower(t *testing.T, w *worker, node string) {
	t.Helper()

	require.NoError(t, harness.Lab().Nodes.Kill(t.Context(), node))
	w.awaitReady(t, node, corev1.ConditionUnknown)
	w.awaitCause(t, "NodeDown")
	require.NoError(t, harness.Lab().Nodes.Boot(t.Context(), node))
	w.awaitReady(t, node, corev1.ConditionTrue)
}

func reboot(t *testing.T, w *worker, node string) {
	t.Helper()

	before, err := w.bootID(t.Context(), node)
	require.NoError(t, err)
	require.NoError(t, harness.Lab().Nodes.Kill(t.Context(), node))
	require.NoError(t, harness.Lab().Nodes.Boot(t.Context(), node))
	harness.Eventually(t, node+" has booted again", func(ctx context.Context) (bool, error) {
		now, err := w.bootID(ctx, node)

		return err == nil && now != before, err
	})
	w.awaitReady(t, node, corev1.ConditionTrue)
}

func (w *worker) bootID(ctx context.Context, node string) (string, error) {
	found, err := w.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}

	return found.Status.NodeInfo.BootID, nil
}

// awaitReady waits until a provider node's condition Ready has a status.
func (w *worker) awaitReady(t *testing.T, node string, status corev1.ConditionStatus) {
	t.Helper()
	harness.Eventually(t, node+" is Ready="+string(status), func(ctx context.Context) (bool, error) {
		found, err := w.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == status, nil
			}
		}

		return false, nil
	})
}

// replace deletes the Machine, as diagnose advises, and goes on with the next one of its pool.
func (w *worker) replace(t *testing.T) {
	t.Helper()

	old := w.machine
	machines := w.MCM.MachineV1alpha1().Machines(w.Namespace)
	require.NoError(t, machines.Delete(t.Context(), old.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "the Machine is replaced", func(ctx context.Context) (bool, error) {
		list, err := machines.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].UID == old.UID {
			return false, err
		}

		w.machine = &list.Items[0]

		return true, nil
	})
	w.RequireGone(t, old.Name)
}
