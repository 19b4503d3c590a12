// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/accidents"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// TestAccidents lets the simulation play the accidents that the tests of real nodes cause.
func TestAccidents(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		root  string
		nodes []string
		run   func(*accidents.Victim, *testing.T)
	}{
		"Always": {root: harness.ImportedRoot, nodes: suite.MortalNodesAlways(), run: (*accidents.Victim).Always},
		"Once":   {root: harness.EphemeralRoot, nodes: suite.MortalNodesOnce(), run: (*accidents.Victim).Once},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := &accidents.Victim{Shoot: harness.NewShoot(t), Pool: "mortal"}
			v.Plane = simulation{shoot: v.Shoot}
			v.ApplyCredentials(t)
			v.RunControllers(t)
			v.AddPool(t, v.Pool, 1, harness.MergeFields(t, v.Spec("zone-a", test.root), onNodes(test.nodes)))
			test.run(v, t)
			v.AwaitEnd(t)
		})
	}
}

// onNodes returns fields of a ProviderSpec for a machine on some of the reserved nodes, whose Node does not join.
func onNodes(names []string) string {
	return fmt.Sprintf(`{"disablePreAllocatedDataVolumes":true,"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{%q:%q}},"spec":{
		"terminationGracePeriodSeconds":0,
		"tolerations":[{"key":%q,"operator":"Exists"}],
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
			{"key":%q,"operator":"In","values":[%q,%q]}]}]}}}
	}}}}}`, behaviour.FaultAnnotation, behaviour.FaultNoJoin, suite.Reserved, corev1.LabelHostname, names[0], names[1])
}

// simulation is the simulated data plane.
type simulation struct{ shoot *harness.Shoot }

// KillGuest implements accidents.Plane.
func (s simulation) KillGuest(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	s.fault(t, instance, behaviour.FaultCrash)
}

// KillLauncher implements accidents.Plane.
func (s simulation) KillLauncher(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	s.fault(t, instance, behaviour.FaultLauncherKilled)
}

// fault plays a fault of one instance, not of those that follow it. Its Node does not join meanwhile.
func (s simulation) fault(t *testing.T, instance *kubevirtv1.VirtualMachineInstance, fault behaviour.Fault) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{behaviour.FaultAnnotation: behaviour.FaultNoJoin + "," + fault}}})
	_, err := s.shoot.KubeVirt.KubevirtV1().VirtualMachineInstances(instance.Namespace).
		Patch(t.Context(), instance.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// CutPower implements accidents.Plane.
func (s simulation) CutPower(t *testing.T, node string) {
	t.Helper()
	s.setDown(t.Context(), t, node, "true")
	t.Cleanup(func() { s.setDown(context.WithoutCancel(t.Context()), t, node, nil) })
}

// Boot implements accidents.Plane.
func (s simulation) Boot(t *testing.T, node string) {
	t.Helper()
	s.setDown(t.Context(), t, node, nil)
}

func (s simulation) setDown(ctx context.Context, t *testing.T, node string, value any) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{behaviour.DownLabel: value}}})
	_, err := s.shoot.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// RequireAlive implements accidents.Plane: simulated guests live as long as their instances.
func (simulation) RequireAlive(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	require.NotEmpty(t, instance.Status.Interfaces)
}
