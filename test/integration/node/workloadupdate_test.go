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
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// TestWorkloadUpdate upgrades virt-launcher below a worker. KubeVirt live-migrates it into a launcher of the new version, of which the worker
// notices nothing. The driver also evacuates machines here, and must not take that for a drain.
func TestWorkloadUpdate(t *testing.T) {
	w := newEvacuated(t)

	var states harness.MachineStates

	states.Observe(t, w.Shoot)

	before := w.instance(t)
	count := w.awaitCount(t, 1)

	w.setUpdateMethods(t, `["LiveMigrate"]`)
	t.Cleanup(func() { w.setUpdateMethods(t, "null") })
	require.NoError(t, harness.Lab().Provider.UpgradeLaunchers(t.Context(), images.NextVirtLauncher))
	t.Cleanup(func() {
		require.NoError(t, harness.Lab().Provider.UpgradeLaunchers(context.WithoutCancel(t.Context()), ""))
	})

	w.awaitInstance(t, "the instance has the new launcher", func(found *kubevirtv1.VirtualMachineInstance) bool {
		return found.Status.LauncherContainerImageVersion == images.NextVirtLauncher
	})

	after := w.instance(t)
	require.Equal(t, before.UID, after.UID)
	require.NotEqual(t, before.Status.NodeName, after.Status.NodeName)
	require.Equal(t, images.NextVirtLauncher, w.launcherImage(t))
	w.recordMigration(t, count)
	w.awaitCount(t, w.awaitCount(t, 1)+3)

	require.Equal(t, w.machine.UID, w.awaitMachine(t, pool).UID)
	require.Empty(t, states.Lapses())
	require.Empty(t, states.Failures())

	events, err := w.events(t.Context(), w.machine.Name)
	require.NoError(t, err)
	require.NotContains(t, events, "EvacuationMigrating")
	w.AwaitEnd(t)
}

// setUpdateMethods sets how KubeVirt updates virtual machines after an upgrade.
func (w *worker) setUpdateMethods(t *testing.T, methods string) {
	t.Helper()

	patch := []byte(`{"spec":{"workloadUpdateStrategy":{"workloadUpdateMethods":` + methods + `}}}`)
	_, err := w.KubeVirt.KubevirtV1().KubeVirts("kubevirt").Patch(context.WithoutCancel(t.Context()), "kubevirt", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// launcherImage returns the image of the launcher that runs on the instance's node.
func (w *worker) launcherImage(t *testing.T) (image string) {
	t.Helper()

	instance := w.instance(t)
	pods, err := w.Kube.CoreV1().Pods(w.ProviderNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: kubevirtv1.CreatedByLabel + "=" + string(instance.UID)})
	require.NoError(t, err)

	for _, pod := range pods.Items {
		if pod.Spec.NodeName != instance.Status.NodeName || pod.Status.Phase != corev1.PodRunning {
			continue
		}

		for _, container := range pod.Spec.Containers {
			if container.Name == "compute" {
				image = container.Image
			}
		}
	}

	return image
}
