// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestLiveMigration takes a Machine from its creation over a live migration, in which its guest loses nothing, to its
// deletion.
func TestLiveMigration(t *testing.T) {
	w := newWorker(t)
	source := w.awaitRunning(t)
	require.Contains(t, w.nodes(t), source, "a node that a kubelet has registered")

	w.awaitCount(t, 1)

	target := w.migrate(t)
	require.NotEqual(t, source, target)

	// The target's console begins where the source's has ended. A guest that had booted again would begin with 1.
	w.awaitCount(t, w.firstCount(t)+3)
	w.requireOneLauncher(t)

	w.remove(t)
}

// migrate live-migrates the machine, and returns its new node.
func (w *worker) migrate(t *testing.T) string {
	t.Helper()

	count := w.lastCount(t)
	migrations := w.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(w.ProviderNamespace)
	migration, err := migrations.Create(t.Context(), &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: w.machine.Name},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the migration ends", func(ctx context.Context) (bool, error) {
		migration, err = migrations.Get(ctx, migration.Name, metav1.GetOptions{})

		return err == nil && migration.IsFinal(), err
	})
	require.Equal(t, kubevirtv1.MigrationSucceeded, migration.Status.Phase)

	w.recordMigration(t, count)

	return w.instance(t).Status.NodeName
}

// recordMigration adds the machine's last migration to the table, before which its guest had counted to a number, and requires that it has
// counted on.
func (w *worker) recordMigration(t *testing.T, count int64) {
	t.Helper()

	state := w.instance(t).Status.MigrationState
	require.NotNil(t, state)
	require.NotNil(t, state.StartTimestamp)
	require.NotNil(t, state.EndTimestamp)

	took := state.EndTimestamp.Sub(state.StartTimestamp.Time)
	first := w.firstCount(t)
	t.Logf("migrated from %s to %s in %s", state.SourceNode, state.TargetNode, took)
	require.Greater(t, first, count, "the guest has counted on")
	recordMigration(t, took, fmt.Sprint("count ", count), fmt.Sprint("count ", first))
}

// requireOneLauncher requires that diagnose does not list the launcher that the migration has left behind.
func (w *worker) requireOneLauncher(t *testing.T) {
	t.Helper()

	harness.Eventually(t, "the launcher of the source has completed", func(ctx context.Context) (bool, error) {
		pods, err := w.Kube.CoreV1().Pods(w.ProviderNamespace).List(ctx, metav1.ListOptions{
			LabelSelector: kubevirtv1.CreatedByLabel + "=" + string(w.instance(t).UID), //nolint:contextcheck // it ends with the test
		})
		if err != nil {
			return false, err
		}

		phases := map[corev1.PodPhase]int{}
		for i := range pods.Items {
			phases[pods.Items[i].Status.Phase]++
		}

		return phases[corev1.PodRunning] == 1 && phases[corev1.PodSucceeded] == 1, nil
	})

	found, _ := w.DiagnoseMachine(t.Context(), t, w.machine.Name)
	require.NotNil(t, found.Provider)

	var listed []string

	for _, object := range found.Provider.Objects {
		if object.Kind == "Pod" {
			listed = append(listed, object.Name)
		}
	}

	require.Len(t, listed, 1, "%v", found.Provider.Objects)
}
