// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestNeverJoins requires that a Machine whose guest runs, but does not join, is replaced after its creation timeout.
func TestNeverJoins(t *testing.T) {
	var states harness.MachineStates

	w := newWorker(t)
	states.Observe(t, w.Shoot)
	w.awaitRunning(t)
	w.awaitCount(t, 1)

	first, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, w.machine.UID, first.UID, "it has not been replaced before")

	// From now on, a minute is enough to know that it does not join.
	patch := []byte(`{"spec":{"template":{"spec":{"creationTimeout":"1m"}}}}`)
	_, err = w.MCM.MachineV1alpha1().MachineDeployments(w.Namespace).Patch(t.Context(), pool, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "another Machine has replaced it", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 1 && list.Items[0].UID != w.machine.UID, err
	})
	states.AwaitFailed(t, w.machine.Name, "failed to join the cluster in 1m0s")
	w.remove(t)
}
