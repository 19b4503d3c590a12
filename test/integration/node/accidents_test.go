// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/accidents"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// TestAccidents_Survived requires that a guest goes on while virt-handler and kubelet start again, that Machine and diagnose show nothing of it, and
// that both then do their work.
func TestAccidents_Survived(t *testing.T) {
	w := newWorker(t)
	w.recordStates(t)
	node := w.awaitRunning(t)
	w.awaitCount(t, 1)

	for program, comesBack := range map[string]func(*testing.T, string) func(context.Context) (bool, error){
		"virt-handler": w.handlerRestarts,
		"kubelet":      w.kubeletRestarts,
	} {
		t.Run(program, func(t *testing.T) {
			record(t)

			before := w.instance(t)
			isBack := comesBack(t, node)

			kill(t, node, program)
			w.requireUntouched(t)
			harness.Eventually(t, program+" is back", isBack)
			w.awaitCount(t, w.awaitCount(t, 1)+3)
			w.requireUntouched(t)
			require.Equal(t, before.UID, w.instance(t).UID)
			require.Equal(t, before.Status.NodeName, w.instance(t).Status.NodeName)
		})
	}

	require.NotEqual(t, node, w.migrate(t), "virt-handler and kubelet still manage the guest")
	w.remove(t)
}

// requireUntouched requires that the Machine waits for its Node, and that diagnose finds no other cause.
func (w *worker) requireUntouched(t *testing.T) {
	t.Helper()
	w.awaitPhase(t, v1alpha1.MachinePending)

	m, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, w.machine.UID, m.UID)
	require.Equal(t, v1alpha1.MachineStateProcessing, m.Status.LastOperation.State, m.Status.LastOperation.Description)

	found, _ := w.DiagnoseMachine(t.Context(), t, m.Name)
	require.Nil(t, found.Cause, "%+v", found.Cause)
	require.Contains(t, found.WaitingFor, "waits for its Node to become ready")
}

// handlerRestarts returns a condition that holds when the virt-handler of a node has started again since, and is ready.
func (w *worker) handlerRestarts(t *testing.T, node string) func(context.Context) (bool, error) {
	t.Helper()

	starts := func(ctx context.Context) (number int32, ready bool, err error) {
		pods, err := w.Kube.CoreV1().Pods("kubevirt").List(ctx, metav1.ListOptions{
			LabelSelector: kubevirtv1.AppLabel + "=virt-handler",
			FieldSelector: "spec.nodeName=" + node,
		})
		if err != nil || len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) == 0 {
			return 0, false, err
		}

		status := pods.Items[0].Status.ContainerStatuses[0]

		return status.RestartCount, status.Ready, nil
	}
	before, ready, err := starts(t.Context())
	require.NoError(t, err)
	require.True(t, ready)

	return func(ctx context.Context) (bool, error) {
		now, ready, err := starts(ctx)

		return ready && now > before, err
	}
}

// kubeletRestarts returns a condition that holds when the kubelet of a node has reported its start since.
func (w *worker) kubeletRestarts(t *testing.T, node string) func(context.Context) (bool, error) {
	t.Helper()

	starts := func(ctx context.Context) (int, error) {
		events, err := w.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=Starting,involvedObject.kind=Node,involvedObject.name=" + node,
		})
		if err != nil {
			return 0, err
		}

		number := 0
		for i := range events.Items {
			if events.Items[i].ReportingController == "kubelet" {
				number += int(max(1, events.Items[i].Count))
			}
		}

		return number, nil
	}
	before, err := starts(t.Context())
	require.NoError(t, err)

	return func(ctx context.Context) (bool, error) {
		now, err := starts(ctx)

		return now > before, err
	}
}

// TestAccidents_Joined cuts the power of the node of a machine that has joined: the Machine is Unknown until its guest is back.
func TestAccidents_Joined(t *testing.T) {
	w := newEvacuated(t)
	before := w.instance(t)

	plane{w}.CutPower(t, before.Status.NodeName)
	w.awaitPhase(t, v1alpha1.MachineUnknown)
	w.victim().AwaitCause(t, "NodeDown")
	plane{w}.Boot(t, before.Status.NodeName)

	harness.Eventually(t, "KubeVirt has started the guest again", func(ctx context.Context) (bool, error) {
		now, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(ctx, before.Name, metav1.GetOptions{})

		return err == nil && now.UID != before.UID, err
	})
	w.awaitCount(t, 1)
	require.Equal(t, w.machine.UID, w.awaitMachine(t, pool).UID, "it is not replaced")
	w.AwaitEnd(t)
}

// awaitPhase waits until the Machine is in a phase.
func (w *worker) awaitPhase(t *testing.T, phase v1alpha1.MachinePhase) {
	t.Helper()
	harness.Eventually(t, "the Machine is "+string(phase), func(ctx context.Context) (bool, error) {
		m, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && m.Status.CurrentStatus.Phase == phase, err
	})
}

// TestAccidents_SyncFailed requires that diagnose reports why virt-handler cannot start a guest: its image contains no disk.
func TestAccidents_SyncFailed(t *testing.T) {
	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return specWith(t, s, fmt.Sprintf(`{"containerDisk":{"image":%q,"imagePullPolicy":"IfNotPresent"}}`, images.Busybox), 0)
	})
	w.recordStates(t)

	found := w.victim().AwaitCause(t, "GuestNotStarted")
	require.Contains(t, found.Cause.Message, "disk")
	w.AwaitEnd(t)
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
		return p.isCounting(ctx, instance.Name)
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
