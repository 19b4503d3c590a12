// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// impatientWithSick makes machine-controller-manager replace a machine whose node has
// been unhealthy for a short time. After that time it checks again, earlier than with its
// usual period of a minute.
func impatientWithSick(d *v1alpha1.MachineDeploymentSpec) {
	d.Template.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{MachineHealthTimeout: &metav1.Duration{Duration: 3 * time.Second}}
}

// tooLate is the creation timeout after which machine-controller-manager must give up a
// machine that has not joined.
const tooLate = 10 * time.Second

// giveUpAfter sets the creation timeout of a pool's existing and future machines; nil:
// the sidecar's flag applies.
func giveUpAfter(t *testing.T, s *harness.Shoot, pool string, timeout *metav1.Duration) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"creationTimeout": timeout}}}})
	_, err := s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).Patch(t.Context(), pool, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// inPlace makes machine-controller-manager update the nodes of a pool in place.
func inPlace(d *v1alpha1.MachineDeploymentSpec) {
	none := intstr.FromInt32(0)
	one := intstr.FromInt32(1)
	d.Strategy = v1alpha1.MachineDeploymentStrategy{
		Type: v1alpha1.InPlaceUpdateMachineDeploymentStrategyType,
		InPlaceUpdate: &v1alpha1.InPlaceUpdateMachineDeployment{
			UpdateConfiguration: v1alpha1.UpdateConfiguration{MaxSurge: &none, MaxUnavailable: &one},
			OrchestrationType:   v1alpha1.OrchestrationTypeAuto,
		},
	}
}

// update assigns a pool a new class that differs from its original one.
func (l *shootLife) update(t *testing.T, pool string) {
	t.Helper()

	newer := copyClass(t, l.Shoot, pool, pool+"-new", func(class *v1alpha1.MachineClass) {
		class.ProviderSpec.Raw = harness.ReplaceInSpec(t, class.ProviderSpec, `"guest":"1Gi"`, `"guest":"2Gi"`)
	})
	patch := harness.MarshalPatch(t, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"class": map[string]any{"name": newer}}}}})
	_, err := l.MCM.MachineV1alpha1().MachineDeployments(l.Namespace).Patch(t.Context(), pool, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// updateRolling replaces the machines of a pool by machines of a new class. The pods on the old
// ones are evicted, and the image is not imported again.
func (l *shootLife) updateRolling(t *testing.T) {
	t.Helper()

	pool := l.pool("rolling")
	old := l.OneOf(t, pool)
	// One pod: machine-controller-manager evicts all pods of a node at once. After the
	// first eviction the API server has decremented the budget, but only the disruption
	// controller updates the number of healthy pods. A second eviction in between is
	// refused, and machine-controller-manager treats the budget as misconfigured: the
	// Machine fails until the next retry.
	app := harness.Application{Name: pool, Pool: pool, Replicas: 1}
	l.RunApplication(t, app)

	events := harness.NewTimeline()
	observer := l.Watch(t, events, map[string]int32{pool: 1})
	l.update(t, pool)
	l.requireReplaced(t, old)
	events.Print(t)
	observer.RequireEvicted(t, int(app.Replicas))
	observer.RequireAtMostAway(t, 0)
	l.StopApplication(t, app)

	classes := l.MCM.MachineV1alpha1().MachineClasses(l.Namespace)
	require.NoError(t, classes.Delete(t.Context(), pool, metav1.DeleteOptions{}))
	harness.Eventually(t, "the old class is gone", func(ctx context.Context) (bool, error) {
		_, err := classes.Get(ctx, pool, metav1.GetOptions{})

		return apierrors.IsNotFound(err), nil
	})
	require.Equal(t, l.images, l.AwaitOneImage(t), "the update must not import another image")
}

// updateInPlace makes machine-controller-manager drain a node, and simulates its update by
// Gardener's node agent. The machine keeps running, and keeps the class that it was created from.
func (l *shootLife) updateInPlace(t *testing.T) {
	t.Helper()

	pool := l.pool("inplace")
	m := l.OneOf(t, pool)
	before := l.untouched(t, m.Name)
	l.update(t, pool)

	awaitNode(t, l.Shoot, m.Name, "is ready for its update", func(node *corev1.Node) bool {
		return conditionOf(node, v1alpha1.NodeInPlaceUpdate).Reason == v1alpha1.ReadyForUpdate
	})

	updated := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"labels": map[string]string{
		v1alpha1.LabelKeyNodeUpdateResult: v1alpha1.LabelValueNodeUpdateSuccessful,
	}}})
	_, err := l.Target.CoreV1().Nodes().Patch(t.Context(), m.Name, types.MergePatchType, updated, metav1.PatchOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the pool is updated", func(ctx context.Context) (bool, error) {
		d, err := l.MCM.MachineV1alpha1().MachineDeployments(l.Namespace).Get(ctx, pool, metav1.GetOptions{})

		return err == nil && d.Status.UpdatedReplicas == 1 && d.Status.AvailableReplicas == 1, err
	})
	awaitNode(t, l.Shoot, m.Name, "takes pods again", func(node *corev1.Node) bool { return !node.Spec.Unschedulable })

	require.Equal(t, m.UID, l.OneOf(t, pool).UID)
	require.Equal(t, before, l.untouched(t, m.Name))
}

// deleteVirtualMachine deletes a worker on the provider cluster externally. The cloud
// controller manager deletes a Node that is not ready and has no instance (MonitorNodes
// in k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go), and
// machine-controller-manager deletes the Machine of a deleted Node, long before it
// would give up the node.
func (l *shootLife) deleteVirtualMachine(t *testing.T) {
	t.Helper()

	old := l.OneOf(t, l.pool("deleted"))
	require.NoError(t, l.KubeVirt.KubevirtV1().VirtualMachines(l.ProviderNamespace).Delete(t.Context(), old.Name, metav1.DeleteOptions{}))
	awaitNode(t, l.Shoot, old.Name, "is not ready", func(node *corev1.Node) bool {
		return conditionOf(node, corev1.NodeReady).Status != corev1.ConditionTrue
	})
	harness.Eventually(t, "the instance is gone", func(ctx context.Context) (bool, error) {
		_, err := l.KubeVirt.KubevirtV1().VirtualMachineInstances(l.ProviderNamespace).Get(ctx, old.Name, metav1.GetOptions{})

		return apierrors.IsNotFound(err), nil
	})
	require.NoError(t, l.Target.CoreV1().Nodes().Delete(t.Context(), old.Name, metav1.DeleteOptions{}))
	l.requireReplaced(t, old)

	_, err := l.Target.CoreV1().Nodes().Get(t.Context(), old.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// replaceWhatNeverJoins creates a machine whose kubelet never registers. Its successor is created
// from a class that was repaired meanwhile, with the default timeout. machine-controller-manager
// checks again when a timeout has changed, and otherwise after a minute.
func (l *shootLife) replaceWhatNeverJoins(t *testing.T) {
	t.Helper()

	pool := l.pool("late")
	mute := harness.MergeFields(t, l.Spec("zone-a", harness.EphemeralRoot),
		`{"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/fault":"no-join"}}}}}}`)
	l.AddPool(t, pool, 1, mute)

	var old *v1alpha1.Machine

	harness.Eventually(t, "a machine is there", func(ctx context.Context) (bool, error) {
		list, err := l.MCM.MachineV1alpha1().Machines(l.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + pool})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}

		old = &list.Items[0]

		return old.Spec.ProviderID != "", nil
	})
	l.ChangeClass(t, pool, `{"virtualMachineTemplate":null}`)
	harness.Eventually(t, old.Name+" has failed", func(context.Context) (bool, error) {
		return time.Since(old.CreationTimestamp.Time) > tooLate, nil
	})
	giveUpAfter(t, l.Shoot, pool, &metav1.Duration{Duration: tooLate})
	l.states.AwaitFailed(t, old.Name, "failed to join the cluster in "+tooLate.String())
	giveUpAfter(t, l.Shoot, pool, nil)
	l.requireReplaced(t, old)
}

// replaceUnhealthy reports a kernel deadlock of a node as a node monitor does.
func (l *shootLife) replaceUnhealthy(t *testing.T) {
	t.Helper()

	old := l.OneOf(t, l.pool("sick"))
	setKernelDeadlock(t, l.Shoot, old.Name, corev1.ConditionTrue)
	l.states.AwaitFailed(t, old.Name, "health checks failing since")
	l.requireReplaced(t, old)
}

// preserve makes machine-controller-manager preserve a failed machine for inspection
// until its node has recovered.
func (l *shootLife) preserve(t *testing.T) {
	t.Helper()

	m := l.OneOf(t, l.pool("kept"))
	before := l.untouched(t, m.Name)
	// The annotation on the node would suffice, but at the moment of the Machine's failure
	// machine-controller-manager reads only that of the Machine.
	preserved := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		machineutils.PreserveMachineAnnotationKey: machineutils.PreserveMachineAnnotationValueWhenFailed,
	}}})
	_, err := l.MCM.MachineV1alpha1().Machines(l.Namespace).Patch(t.Context(), m.Name, types.MergePatchType, preserved, metav1.PatchOptions{})
	require.NoError(t, err)

	setKernelDeadlock(t, l.Shoot, m.Name, corev1.ConditionTrue)
	harness.Eventually(t, m.Name+" has failed, and is preserved", func(ctx context.Context) (bool, error) {
		now, err := l.MCM.MachineV1alpha1().Machines(l.Namespace).Get(ctx, m.Name, metav1.GetOptions{})

		return err == nil && machineutils.IsMachineFailed(now) && now.Status.CurrentStatus.PreserveExpiryTime != nil, err
	})
	awaitNode(t, l.Shoot, m.Name, "is preserved", func(node *corev1.Node) bool {
		return conditionOf(node, v1alpha1.NodePreserved).Status == corev1.ConditionTrue
	})
	require.Equal(t, before, l.untouched(t, m.Name))

	setKernelDeadlock(t, l.Shoot, m.Name, corev1.ConditionFalse)
	require.Equal(t, m.UID, l.OneOf(t, l.pool("kept")).UID)
	require.Equal(t, before, l.untouched(t, m.Name))
}

// untouched returns values that change when the spec of the VirtualMachine is written, when its
// guest restarts, and when the driver writes to any object of the machine, even only a label.
func (l *shootLife) untouched(t *testing.T, name string) [4]any {
	t.Helper()

	vm := l.VM(t, name)
	instance, err := l.KubeVirt.KubevirtV1().VirtualMachineInstances(l.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)

	return [4]any{vm.UID, vm.Generation, instance.UID, l.line.Written(name)}
}

func awaitNode(t *testing.T, s *harness.Shoot, name, what string, is func(*corev1.Node) bool) {
	t.Helper()

	harness.Eventually(t, "node "+name+" "+what, func(ctx context.Context) (bool, error) {
		node, err := s.Target.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})

		return err == nil && is(node), err
	})
}

// conditionOf returns a node's condition, or an empty condition if there is none.
func conditionOf(node *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}

	return corev1.NodeCondition{}
}

// setKernelDeadlock sets a condition of a node as node-problem-detector does.
func setKernelDeadlock(t *testing.T, s *harness.Shoot, node string, is corev1.ConditionStatus) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type:               "KernelDeadlock",
		Status:             is,
		Reason:             "Test",
		LastTransitionTime: metav1.Now(),
		LastHeartbeatTime:  metav1.Now(),
	}}}})
	_, err := s.Target.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// copyClass creates a class that differs from another one, and returns its name.
func copyClass(t *testing.T, s *harness.Shoot, from, name string, change func(*v1alpha1.MachineClass)) string {
	t.Helper()

	classes := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace)
	class, err := classes.Get(t.Context(), from, metav1.GetOptions{})
	require.NoError(t, err)

	class.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
	change(class)

	_, err = classes.Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	return name
}

// requireReplaced waits until another Machine has replaced this one, and requires
// that its machine is gone.
func (l *shootLife) requireReplaced(t *testing.T, old *v1alpha1.Machine) {
	t.Helper()

	harness.Eventually(t, old.Name+" is replaced", func(ctx context.Context) (bool, error) {
		list, err := l.MCM.MachineV1alpha1().Machines(l.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + old.Labels["name"]})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}

		m := &list.Items[0]

		return m.UID != old.UID && m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning, nil
	})
	l.RequireGone(t, old.Name)
}
