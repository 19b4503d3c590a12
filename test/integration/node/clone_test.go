// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// cloneType is the annotation in which CDI records how it has cloned a claim.
const cloneType = "cdi.kubevirt.io/cloneType"

// TestGoldenImage imports a golden image once with CDI's importer, and clones it for two machines by copying: CDI's source pod sends it to
// an upload server, whose Service needs DNS and kube-proxy. Both guests run.
func TestGoldenImage(t *testing.T) {
	first := newMachine(t, noUserData, clonedSpec)
	first.recordStates(t)
	first.awaitRunning(t)
	first.awaitCount(t, 1)

	image := first.Images(t)
	require.Len(t, image, 1, "the golden image")

	second := first.sibling(t)
	second.awaitRunning(t)
	second.awaitCount(t, 1)
	require.Equal(t, image, first.Images(t), "it has been imported once")

	for _, w := range []*worker{first, second} {
		vm, err := w.KubeVirt.KubevirtV1().VirtualMachines(w.ProviderNamespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
		require.NoError(t, err)

		name := vm.Spec.DataVolumeTemplates[0].Name
		claim, err := w.Kube.CoreV1().PersistentVolumeClaims(w.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "copy", claim.Annotations[cloneType], "%s: %v", claim.Name, claim.Annotations)
	}

	first.AwaitImageEnd(t)
}

// clonedSpec returns the ProviderSpec of a counting guest whose root disk is a clone of a golden image.
func clonedSpec(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	return harness.MergeFields(t, importedSpec(corev1.ReadWriteMany, 0)(t, s), `{"disablePreAllocatedDataVolumes":false}`)
}

// sibling scales the pool up to two, and returns the new worker.
func (w *worker) sibling(t *testing.T) *worker {
	t.Helper()

	other := &worker{Shoot: w.Shoot, began: time.Now()}
	w.Scale(t, pool, 2)

	harness.Eventually(t, "the second Machine exists", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		at := slices.IndexFunc(list.Items, func(m v1alpha1.Machine) bool { return m.Name != w.machine.Name })
		if at < 0 {
			return false, nil
		}

		other.machine = &list.Items[at]

		return true, nil
	})

	return other
}
