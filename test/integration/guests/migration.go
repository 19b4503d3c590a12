// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// StartMigration waits until a guest is ready and can migrate, and creates its live migration.
func StartMigration(t *testing.T, s *harness.Shoot, machine string) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()
	await(t, s, machine, "can migrate", (*kubevirtv1.VirtualMachineInstance).IsMigratable)

	instance, _ := awaitReady(t, s, machine)
	requireInterfaces(t, instance)

	migration, err := s.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace).Create(t.Context(),
		&kubevirtv1.VirtualMachineInstanceMigration{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
			Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: machine},
		}, metav1.CreateOptions{})
	require.NoError(t, err)

	return migration
}

// AwaitMigration waits for a state of a live migration, and returns the migration in that state.
func AwaitMigration(
	t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration,
	state string, reached func(*kubevirtv1.VirtualMachineInstanceMigration) bool,
) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()

	harness.Eventually(t, migration.Name+" "+state, func(ctx context.Context) (bool, error) {
		read, err := s.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace).
			Get(ctx, migration.Name, metav1.GetOptions{})
		migration = read

		return err == nil && reached(read), err
	})

	return migration
}

// RequireMigrationEnd waits until a live migration ends as expected. It requires all phases of virt-controller, each once, and that the guest then
// runs in the launcher of the target, or in that of the source if the migration has failed. The other launcher stays as a completed pod, which
// diagnose does not list.
func RequireMigrationEnd(
	t *testing.T, s *harness.Shoot, migration *kubevirtv1.VirtualMachineInstanceMigration, end kubevirtv1.VirtualMachineInstanceMigrationPhase,
) {
	t.Helper()

	ended := AwaitMigration(t, s, migration, "ends", (*kubevirtv1.VirtualMachineInstanceMigration).IsFinal)

	var phases []kubevirtv1.VirtualMachineInstanceMigrationPhase
	for _, transition := range ended.Status.PhaseTransitionTimestamps {
		phases = append(phases, transition.Phase)
	}

	require.Equal(t, []kubevirtv1.VirtualMachineInstanceMigrationPhase{
		kubevirtv1.MigrationPending, kubevirtv1.MigrationScheduling, kubevirtv1.MigrationScheduled,
		kubevirtv1.MigrationPreparingTarget, kubevirtv1.MigrationTargetReady, kubevirtv1.MigrationRunning, end,
	}, phases)

	instance, launchers := awaitReady(t, s, migration.Spec.VMIName)
	state := instance.Status.MigrationState
	require.Equal(t, ended.UID, state.MigrationUID)
	requireState(t, instance, end == kubevirtv1.MigrationFailed)
	requireTargetAddress(t, s, instance, launchers)
	requireInterfaces(t, instance)

	launcher := state.TargetPod
	if state.Failed {
		launcher = state.SourcePod
	}

	require.Equal(t, corev1.PodRunning, launchers[launcher].Status.Phase)
	require.Subset(t, slices.Collect(maps.Keys(launchers)), []string{state.SourcePod, state.TargetPod})
	requireListed(t, s, instance.Name, launcher)
}

// requireState requires what an instance shows of its last migration.
func requireState(t *testing.T, instance *kubevirtv1.VirtualMachineInstance, failed bool) {
	t.Helper()

	state := instance.Status.MigrationState
	require.Equal(t, failed, state.Failed, state.FailureReason)
	require.Equal(t, !failed, state.TargetNodeDomainReadyTimestamp != nil)
	require.Equal(t, kubevirtv1.MigrationPreCopy, state.Mode)
	require.NotNil(t, state.StartTimestamp)
	require.NotNil(t, state.EndTimestamp)
	require.NotEqual(t, state.SourceNode, state.TargetNode)
	require.Equal(t, map[bool]string{true: state.SourceNode, false: state.TargetNode}[failed], instance.Status.NodeName)
	require.Equal(t, instance.Status.NodeName, instance.Labels[kubevirtv1.NodeNameLabel])

	// virt-handler's ports lead to those of libvirt's socket and of QEMU, and for disks that are copied, of its block devices.
	ports := []int{0, 49152}
	if instance.Status.MigrationMethod == kubevirtv1.BlockMigration {
		ports = append(ports, 49153)
	}

	require.ElementsMatch(t, ports, slices.Collect(maps.Values(state.TargetDirectMigrationNodePorts)))
}

// requireTargetAddress requires that virt-handler has listened for the guest, and not the launcher: at the address of its pod, if it has one.
func requireTargetAddress(t *testing.T, s *harness.Shoot, instance *kubevirtv1.VirtualMachineInstance, launchers map[string]corev1.Pod) {
	t.Helper()

	state := instance.Status.MigrationState
	require.NotEmpty(t, state.TargetNodeAddress)

	for name := range launchers {
		require.NotEqual(t, launchers[name].Status.PodIP, state.TargetNodeAddress)
	}

	handlers, err := s.Kube.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{
		LabelSelector: kubevirtv1.AppLabel + "=virt-handler",
		FieldSelector: "spec.nodeName=" + state.TargetNode,
	})
	require.NoError(t, err)

	for i := range handlers.Items {
		require.Equal(t, handlers.Items[i].Status.PodIP, state.TargetNodeAddress)
	}
}

// requireListed requires that diagnose lists only one pod of a machine.
func requireListed(t *testing.T, s *harness.Shoot, machine, pod string) {
	t.Helper()

	found, _ := s.DiagnoseMachine(t.Context(), t, machine)
	require.NotNil(t, found.Provider, found.Error)

	var listed []string

	for _, object := range found.Provider.Objects {
		if object.Kind == "Pod" {
			listed = append(listed, object.Name)
		}
	}

	require.Equal(t, []string{pod}, listed)
}

// awaitReady waits until the instance of a machine is ready, and returns it with its launchers: one runs the guest, and those that migrations have
// left are completed. For some seconds after a migration, the instance is not ready, and has the address of the source's launcher.
func awaitReady(t *testing.T, s *harness.Shoot, machine string) (*kubevirtv1.VirtualMachineInstance, map[string]corev1.Pod) {
	t.Helper()

	var (
		instance  *kubevirtv1.VirtualMachineInstance
		launchers map[string]corev1.Pod
	)

	harness.Eventually(t, machine+" is ready in its only launcher that runs", func(ctx context.Context) (_ bool, err error) {
		if instance, err = s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Get(ctx, machine, metav1.GetOptions{}); err != nil {
			return false, err
		}

		pods, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).List(ctx, metav1.ListOptions{
			LabelSelector: kubevirtv1.CreatedByLabel + "=" + string(instance.UID),
		})
		if err != nil {
			return false, err
		}

		launchers = map[string]corev1.Pod{}
		for _, pod := range pods.Items {
			launchers[pod.Name] = pod
		}

		return true, unready(instance, pods.Items)
	})

	return instance, launchers
}

// unready returns why an instance is not ready in its only launcher that runs.
func unready(instance *kubevirtv1.VirtualMachineInstance, launchers []corev1.Pod) error {
	if ready := condition(instance, kubevirtv1.VirtualMachineInstanceReady); ready.Status != corev1.ConditionTrue {
		return fmt.Errorf("the instance is not ready: %s", ready.Message)
	}

	if node, migrating := instance.Labels[kubevirtv1.MigrationTargetNodeNameLabel]; migrating {
		return fmt.Errorf("the instance has still the label of its migration to %s", node)
	}

	for _, pod := range launchers {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}

		if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != instance.Status.NodeName {
			return fmt.Errorf("launcher %s on %s is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
		}

		if address, ok := podNetworkAddress(instance); ok && address != pod.Status.PodIP {
			return fmt.Errorf("the address is %s, and that of its launcher is %s", address, pod.Status.PodIP)
		}
	}

	return nil
}

// podNetworkAddress returns the address of an instance on the pod network, if it is connected to it.
func podNetworkAddress(instance *kubevirtv1.VirtualMachineInstance) (address string, connected bool) {
	for _, network := range instance.Spec.Networks {
		for _, status := range instance.Status.Interfaces {
			if network.Pod != nil && network.Name == status.Name {
				return status.IP, true
			}
		}
	}

	return "", false
}
