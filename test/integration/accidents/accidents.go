// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package accidents lets accidents of provider nodes, and on them, happen to a machine, and requires what the machine, KubeVirt and diagnose
// then show.
//
// The tests of real nodes and those of the simulation call it with a data plane each, so that both show the same. It must not know which one
// it has.
package accidents

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// Plane is a data plane.
type Plane interface {
	// KillGuest ends the process of a guest, and KillLauncher the launcher above it.
	KillGuest(t *testing.T, instance *kubevirtv1.VirtualMachineInstance)
	KillLauncher(t *testing.T, instance *kubevirtv1.VirtualMachineInstance)
	// CutPower ends all processes of a node, and Boot starts it again.
	CutPower(t *testing.T, node string)
	Boot(t *testing.T, node string)
	// RequireAlive returns when the guest does something.
	RequireAlive(t *testing.T, instance *kubevirtv1.VirtualMachineInstance)
}

// Victim is a pool with one machine, whose Node does not join.
type Victim struct {
	*harness.Shoot

	Pool  string
	Plane Plane
}

// accident is what happens, and what can be seen while it lasts.
type accident struct {
	name   string
	reason string
	happen func(t *testing.T, v *Victim, instance *kubevirtv1.VirtualMachineInstance)
}

var accidents = []accident{
	{name: "Guest", reason: "KubeVirt sees at once that the guest has crashed", happen: func(t *testing.T, v *Victim, instance *kubevirtv1.VirtualMachineInstance) {
		t.Helper()
		v.Plane.KillGuest(t, instance)
	}},
	{name: "Launcher", reason: "the guest ends with its pod, which virt-handler misses after half a minute", happen: killLauncher},
	{name: "Power", reason: "nothing is known of the guest until the node is back", happen: cutPower},
	{name: "Reboot", reason: "the node is back before it is missed", happen: func(t *testing.T, v *Victim, instance *kubevirtv1.VirtualMachineInstance) {
		t.Helper()

		before := v.bootID(t, instance.Status.NodeName)
		v.Plane.CutPower(t, instance.Status.NodeName)
		v.Plane.Boot(t, instance.Status.NodeName)
		harness.Eventually(t, "the node has booted", func(context.Context) (bool, error) { return v.bootID(t, instance.Status.NodeName) != before, nil })
		v.awaitNode(t, instance.Status.NodeName, corev1.ConditionTrue)
	}},
}

// Always requires that a guest that KubeVirt starts again comes back after every accident.
func (v *Victim) Always(t *testing.T) {
	t.Helper()

	for _, a := range accidents {
		if !t.Run(a.name, func(t *testing.T) {
			before := v.awaitRunning(t)
			machine := v.requirePending(t)
			a.happen(t, v, before)
			v.await(t, "another instance runs: "+a.reason, func(found *kubevirtv1.VirtualMachineInstance) bool {
				return found.UID != before.UID && found.Status.Phase == kubevirtv1.Running
			})
			v.awaitRunning(t)
			require.Equal(t, machine.UID, v.requirePending(t).UID, "the Machine is not replaced")
		}) {
			return // The next accident would wait for the machine.
		}
	}
}

// Once requires that diagnose names the end of a guest that KubeVirt does not start again, and that the machine is replaced when it is
// deleted.
func (v *Victim) Once(t *testing.T) {
	t.Helper()

	for _, a := range accidents {
		if !t.Run(a.name, func(t *testing.T) {
			before := v.awaitRunning(t)
			machine := v.requirePending(t)
			a.happen(t, v, before)
			v.await(t, "the instance has failed: "+a.reason, func(found *kubevirtv1.VirtualMachineInstance) bool {
				return found.UID == before.UID && found.Status.Phase == kubevirtv1.Failed
			})

			found := v.AwaitCause(t, "GuestEnded")
			require.Contains(t, found.Cause.Message, "runStrategy Once")
			require.Contains(t, found.Cause.Message, "the last event: The VirtualMachineInstance crashed")
			require.Equal(t, machine.UID, v.requirePending(t).UID)
			harness.Eventually(t, "the VirtualMachine is stopped", func(ctx context.Context) (bool, error) {
				vm, err := v.KubeVirt.KubevirtV1().VirtualMachines(v.ProviderNamespace).Get(ctx, before.Name, metav1.GetOptions{})

				return err == nil && vm.Status.PrintableStatus == kubevirtv1.VirtualMachineStatusStopped, err
			})
			v.replace(t)
		}) {
			return // The next accident would wait for the machine.
		}
	}
}

// killLauncher requires that the instance is not ready from then on, and still Running.
func killLauncher(t *testing.T, v *Victim, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	v.Plane.KillLauncher(t, instance)
	v.awaitUnready(t, instance)
}

// cutPower cuts a node's power until its loss is known.
func cutPower(t *testing.T, v *Victim, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	v.Plane.CutPower(t, instance.Status.NodeName)
	v.awaitNode(t, instance.Status.NodeName, corev1.ConditionUnknown)
	v.awaitUnready(t, instance)
	v.AwaitCause(t, "NodeDown")
	v.requirePending(t)
	v.Plane.Boot(t, instance.Status.NodeName)
	v.awaitNode(t, instance.Status.NodeName, corev1.ConditionTrue)
}

// machine returns the only Machine.
func (v *Victim) machine(ctx context.Context) (*v1alpha1.Machine, error) {
	list, err := v.MCM.MachineV1alpha1().Machines(v.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + v.Pool})
	if err != nil || len(list.Items) != 1 {
		return nil, err
	}

	return &list.Items[0], nil
}

// requirePending requires that the only Machine waits for its Node, and shows no failure: machine-controller-manager does not ask the driver
// again until its creation timeout, so that diagnose alone finds the cause. Before an accident, it also waits for the last call of the driver,
// which would report what it sees.
func (v *Victim) requirePending(t *testing.T) *v1alpha1.Machine {
	t.Helper()

	var m *v1alpha1.Machine

	// The first phase follows the call of InitializeMachine, which may begin after the guest has started.
	harness.Eventually(t, "the Machine has a phase", func(ctx context.Context) (_ bool, err error) {
		m, err = v.machine(ctx)

		return m != nil && m.Status.CurrentStatus.Phase != "", err
	})
	require.Equal(t, v1alpha1.MachinePending, m.Status.CurrentStatus.Phase)
	require.Equal(t, v1alpha1.MachineStateProcessing, m.Status.LastOperation.State, m.Status.LastOperation.Description)

	return m
}

// await waits until the instance of the Machine exists and is as wanted, and returns it.
func (v *Victim) await(t *testing.T, what string, wanted func(*kubevirtv1.VirtualMachineInstance) bool) (found *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	begin := time.Now()

	harness.Eventually(t, what, func(ctx context.Context) (bool, error) {
		m, err := v.machine(ctx)
		if err != nil || m == nil {
			return false, err
		}

		found, err = v.KubeVirt.KubevirtV1().VirtualMachineInstances(v.ProviderNamespace).Get(ctx, m.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return err == nil && wanted(found), err
	})
	t.Logf("%s: after %.0f s", what, time.Since(begin).Seconds())

	return found
}

func (v *Victim) awaitRunning(t *testing.T) *kubevirtv1.VirtualMachineInstance {
	t.Helper()

	instance := v.await(t, "an instance runs", func(found *kubevirtv1.VirtualMachineInstance) bool {
		return found.DeletionTimestamp == nil && found.Status.Phase == kubevirtv1.Running && readiness(found) == corev1.ConditionTrue
	})
	v.Plane.RequireAlive(t, instance)

	return instance
}

// awaitUnready waits until an instance is no longer ready, and requires that KubeVirt still reports it as running.
func (v *Victim) awaitUnready(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	found := v.await(t, "the instance is not ready", func(found *kubevirtv1.VirtualMachineInstance) bool {
		return found.UID == instance.UID && readiness(found) == corev1.ConditionFalse
	})
	require.Equal(t, kubevirtv1.Running, found.Status.Phase)
}

func readiness(instance *kubevirtv1.VirtualMachineInstance) corev1.ConditionStatus {
	at := slices.IndexFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstanceReady
	})
	if at < 0 {
		return corev1.ConditionUnknown
	}

	return instance.Status.Conditions[at].Status
}

// awaitNode waits until a node's condition Ready has a status.
func (v *Victim) awaitNode(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	harness.Eventually(t, name+" is Ready="+string(status), func(ctx context.Context) (bool, error) {
		found, err := v.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		return slices.ContainsFunc(found.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == status
		}), nil
	})
}

func (v *Victim) bootID(t *testing.T, node string) string {
	t.Helper()

	found, err := v.Kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err)

	return found.Status.NodeInfo.BootID
}

// AwaitCause waits until diagnose, with these arguments, finds a cause, and returns the diagnosis.
func (v *Victim) AwaitCause(t *testing.T, reason string, args ...string) harness.Diagnosis {
	t.Helper()

	var found harness.Diagnosis

	harness.Eventually(t, "diagnose finds "+reason, func(ctx context.Context) (bool, error) {
		m, err := v.machine(ctx)
		if err != nil || m == nil {
			return false, err
		}

		found, _ = v.DiagnoseMachine(ctx, t, m.Name, args...)

		return found.Cause != nil && found.Cause.Reason == reason, nil
	})
	t.Logf("diagnose: %s: %s; %s", found.Cause.Reason, found.Cause.Message, found.Cause.Remedy)

	return found
}

// replace deletes the Machine, as diagnose advises, and returns when there is the next one of its pool.
func (v *Victim) replace(t *testing.T) {
	t.Helper()

	old, err := v.machine(t.Context())
	require.NoError(t, err)
	require.NotNil(t, old)
	require.NoError(t, v.MCM.MachineV1alpha1().Machines(v.Namespace).Delete(t.Context(), old.Name, metav1.DeleteOptions{}))
	harness.Eventually(t, "the Machine is replaced", func(ctx context.Context) (bool, error) {
		m, err := v.machine(ctx)

		return err == nil && m != nil && m.UID != old.UID, err
	})
	v.RequireGone(t, old.Name)
}
