// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package guests requires what KubeVirt and diagnose show of guests: of their agents, of their live migrations, and of what prevents one.
//
// The tests of real nodes and those of the simulation call it, so that both data planes show the same. It must not know which one it has.
package guests

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// AwaitAgent waits until the agent of a guest reports interfaces that are not in the spec of its instance, as those of pods, and returns the
// instance.
func AwaitAgent(t *testing.T, s *harness.Shoot, machine string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()

	instance := await(t, s, machine, "has an agent, which reports interfaces of pods", func(found *kubevirtv1.VirtualMachineInstance) bool {
		return condition(found, kubevirtv1.VirtualMachineInstanceAgentConnected).Status == corev1.ConditionTrue && found.Status.GuestOSInfo.ID != "" &&
			slices.ContainsFunc(found.Status.Interfaces, isUnnamed)
	})
	requireInterfaces(t, instance)

	for _, status := range instance.Status.Interfaces {
		require.NotEmpty(t, status.InterfaceName, status.Name)
		require.Contains(t, status.InfoSource, "guest-agent")
		require.True(t, isUnnamed(status) || status.IP != "", status.Name)
	}

	return instance
}

// requireInterfaces requires that the instance shows all interfaces of its spec, and others without a name only if there is an agent.
func requireInterfaces(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	var specified, named []string

	for _, spec := range instance.Spec.Domain.Devices.Interfaces {
		specified = append(specified, spec.Name)
	}

	for _, status := range instance.Status.Interfaces {
		if !isUnnamed(status) {
			named = append(named, status.Name)

			continue
		}

		require.Equal(t, "guest-agent", status.InfoSource)
		require.Equal(t, corev1.ConditionTrue, condition(instance, kubevirtv1.VirtualMachineInstanceAgentConnected).Status)
	}

	require.ElementsMatch(t, specified, named)
}

func isUnnamed(status kubevirtv1.VirtualMachineInstanceNetworkInterface) bool {
	return status.Name == ""
}

// Obstacle returns what an instance that cannot live-migrate shows as its reason and message.
type Obstacle func(*testing.T, *kubevirtv1.VirtualMachineInstance) (reason, message string)

// BridgeObstacle is an interface with a bridge on the pod network.
func BridgeObstacle(t *testing.T, _ *kubevirtv1.VirtualMachineInstance) (reason, message string) {
	t.Helper()

	const older = ", bridge with " + kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation + " VM annotation"

	return kubevirtv1.VirtualMachineInstanceReasonInterfaceNotMigratable,
		fmt.Sprintf("cannot migrate VMI which does not use masquerade%s or a migratable plugin to connect to the pod network",
			harness.PerKubeVirt[string]{"1.6": older, "1.7": older, "1.8": "", "1.9": ""}.Get(t))
}

// VolumeObstacle is the volume of the root disk, which only one node can use at a time.
func VolumeObstacle(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) (reason, message string) {
	t.Helper()
	require.NotNil(t, instance.Spec.Volumes[0].DataVolume)

	return kubevirtv1.VirtualMachineInstanceReasonDisksNotMigratable,
		fmt.Sprintf("cannot migrate VMI: PVC %s is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)",
			instance.Spec.Volumes[0].DataVolume.Name)
}

// AwaitObstacle waits until an instance shows, with KubeVirt's text, what prevents its live migration.
func AwaitObstacle(t *testing.T, s *harness.Shoot, machine string, obstacle Obstacle) {
	t.Helper()

	instance := await(t, s, machine, "shows whether it can migrate", func(found *kubevirtv1.VirtualMachineInstance) bool {
		return condition(found, kubevirtv1.VirtualMachineInstanceIsMigratable).Status != ""
	})
	shown := condition(instance, kubevirtv1.VirtualMachineInstanceIsMigratable)
	require.Equal(t, corev1.ConditionFalse, shown.Status)

	reason, message := obstacle(t, instance)
	require.Equal(t, reason, shown.Reason)
	require.Equal(t, message, shown.Message)
}

// await waits until the instance of a machine is as wanted, and returns it.
func await(
	t *testing.T, s *harness.Shoot, machine, state string, reached func(*kubevirtv1.VirtualMachineInstance) bool,
) (found *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	harness.Eventually(t, machine+" "+state, func(ctx context.Context) (_ bool, err error) {
		found, err = s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, machine, metav1.GetOptions{})

		return err == nil && reached(found), err
	})

	return found
}

// condition returns a condition of an instance, which is empty if there is none.
func condition(
	instance *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType,
) (found kubevirtv1.VirtualMachineInstanceCondition) {
	for _, c := range instance.Status.Conditions {
		if c.Type == kind {
			found = c
		}
	}

	return found
}
