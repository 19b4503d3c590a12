// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
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
	w.remove(t)
}

// migrate live-migrates the machine, and returns its new node.
func (w *worker) migrate(t *testing.T) string {
	t.Helper()

	count := w.lastCount(t)
	migration := guests.StartMigration(t, w.Shoot, w.machine.Name)
	guests.RequireMigrationEnd(t, w.Shoot, migration, kubevirtv1.MigrationSucceeded)
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
