// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// maintained is a shoot whose workers, in two MachineDeployments, all run pods on the
// first of a zone's two hosts.
type maintained struct {
	*harness.Shoot
	*harness.Observer

	zone    zone
	workers int
	apps    []harness.Application
}

// newMaintained creates a shoot with perPool workers in each MachineDeployment. fields are
// overlaid on their ProviderSpecs.
func newMaintained(t *testing.T, perPool int32, fields string, sidecarArgs ...string) *maintained {
	t.Helper()

	m := &maintained{Shoot: harness.NewShoot(t), zone: addZone(t, 2), workers: 2 * int(perPool)}
	kubectl(t, "cordon", m.zone.hosts[1])

	_, err := harness.Lab().AllowEvacuation(t.Context(), m.Shoot.Shoot)
	require.NoError(t, err)

	// Long enough that no drain of a shoot's node is forced.
	m.RunControllers(t, append([]string{"--machine-drain-timeout=10m"}, sidecarArgs...)...)
	m.ApplyCredentials(t)

	pools := map[string]int32{m.Name + "-a": perPool, m.Name + "-b": perPool}
	for pool, machines := range pools {
		m.AddPool(t, pool, machines, harness.MergeFields(t, m.Spec(m.zone.name, harness.EphemeralRoot), fields))
	}

	m.AwaitRunning(t, m.workers)
	require.Len(t, m.on(t, m.zone.hosts[0]), m.workers, "all are on one host")
	kubectl(t, "uncordon", m.zone.hosts[1])
	m.runApplications(t, pools)
	m.Observer = m.Watch(t, harness.NewTimeline(), pools)

	return m
}

// runApplications runs one application on all nodes of each pool, and one whose pods are all on one
// node. The latter blocks that node's drain until the first of its pods runs elsewhere.
func (m *maintained) runApplications(t *testing.T, pools map[string]int32) {
	t.Helper()

	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		nodes := m.awaitNodes(t, pool, int(pools[pool]))
		m.apps = append(m.apps,
			harness.Application{Name: pool, Pool: pool, Replicas: pools[pool]},
			harness.Application{Name: pool + "-together", Pool: pool, Replicas: 2, Node: nodes[0]})
	}

	for _, app := range m.apps {
		m.RunApplication(t, app)
	}
}

// awaitNodes waits until machine-controller-manager has labelled the nodes of a pool,
// and returns their names.
func (m *maintained) awaitNodes(t *testing.T, pool string, want int) []string {
	t.Helper()

	var names []string

	harness.Eventually(t, "the nodes of "+pool+" are labelled", func(ctx context.Context) (bool, error) {
		list, err := m.Target.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: harness.PoolLabel + "=" + pool})
		if err != nil {
			return false, err
		}

		names = nil
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}

		return len(names) == want, nil
	})

	return names
}

// on returns the machines on a host.
func (m *maintained) on(t *testing.T, host string) []string {
	t.Helper()

	list, err := m.KubeVirt.KubevirtV1().VirtualMachineInstances(m.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	var names []string

	for i := range list.Items {
		if list.Items[i].Status.NodeName == host {
			names = append(names, list.Items[i].Name)
		}
	}

	return names
}

// drain drains the first host as its administrator does, and requires that the drain completes and
// that all machines then run on the second.
func (m *maintained) drain(t *testing.T) {
	t.Helper()
	startDrain(t.Context(), t, m.Shoot, m.zone.hosts[0], m.Timeline).wait(t)
	// The drain ends with the pods; KubeVirt ends their instances a moment later.
	harness.Eventually(t, "no machine is left on "+m.zone.hosts[0], func(context.Context) (bool, error) {
		return len(m.on(t, m.zone.hosts[0])) == 0, nil //nolint:contextcheck // It ends with the test.
	})
	m.AwaitRunning(t, m.workers)
	require.Len(t, m.on(t, m.zone.hosts[1]), m.workers)
	kubectl(t, "uncordon", m.zone.hosts[0])
	m.Add("admin", "kubectl uncordon %s", m.zone.hosts[0])
	m.Print(t)
	m.RequireNoWarnings(t)
}

// end deletes the applications and the machines.
func (m *maintained) end(t *testing.T) {
	t.Helper()

	for _, app := range m.apps {
		m.StopApplication(t, app)
	}

	m.AwaitEnd(t)
}

// TestDrainOfAProviderNode tests the maintenance of a provider's host: its administrator runs
// `kubectl drain` without knowing the shoots, and the shoot's owner has PodDisruptionBudgets
// without knowing the hosts.
func TestDrainOfAProviderNode(t *testing.T) {
	t.Parallel()

	t.Run("Replaced", func(t *testing.T) {
		t.Parallel()

		// One at a time, as by default: if two Nodes of a pool are drained at once, a pod that leaves the one may be bound to the other
		// in the moment in which machine-controller-manager cordons it, which then does not evict it.
		m := newMaintained(t, 3, `{}`, "--evacuation")
		m.drain(t)

		require.Len(t, m.Deletions(), m.workers, "machines on a bridge cannot migrate")
		m.RequireAtMostAway(t, 1)
		m.RequireEvicted(t, m.workers)
		m.RequireBudgetsKept(t, m.apps...)
		m.end(t)
	})

	t.Run("Migrated", func(t *testing.T) {
		t.Parallel()

		m := newMaintained(t, 5, migratable, "--evacuation")
		m.drain(t)

		require.Empty(t, m.Deletions(), "live migration deletes no Machine")
		m.RequireAtMostAway(t, 0)
		m.RequireEvicted(t, 0)
		m.end(t)
	})

	t.Run("MigratedByDriver", func(t *testing.T) {
		t.Parallel()

		m := newMaintained(t, 1, migratedByDriver, "--evacuation")
		m.drain(t)

		require.Empty(t, m.Deletions(), "live migration deletes no Machine")
		harness.Eventually(t, "the driver has deleted its migrations", func(ctx context.Context) (bool, error) {
			list, err := m.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(m.ProviderNamespace).List(ctx, metav1.ListOptions{})

			return err == nil && len(list.Items) == 0, err
		})
		m.end(t)
	})

	t.Run("MigrationFails", func(t *testing.T) {
		t.Parallel()

		m := newMaintained(t, 1, failing, "--evacuation")
		m.drain(t)

		require.Len(t, m.Deletions(), m.workers, "a machine that cannot migrate is replaced")
		m.RequireEvicted(t, m.workers)
		m.RequireBudgetsKept(t, m.apps...)
		m.end(t)
	})

	// The baseline for comparison.
	t.Run("WithoutEvacuation", func(t *testing.T) {
		t.Parallel()

		m := newMaintained(t, 1, `{}`)
		startDrain(t.Context(), t, m.Shoot, m.zone.hosts[0], m.Timeline).wait(t)
		harness.Eventually(t, "the guests have been shut down with all their pods", func(context.Context) (bool, error) {
			return len(m.Killed()) == 3*m.workers, nil
		})
		m.Print(t)
		m.end(t)
	})
}
