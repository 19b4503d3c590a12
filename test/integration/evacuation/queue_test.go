// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// TestSoakMigrationsMayQueue drains a node with eight machines. The real virt-controller
// migrates two at a time, so that the last ones are queued for longer than the time in
// which a queue must progress.
func TestSoakMigrationsMayQueue(t *testing.T) {
	t.Parallel()

	const (
		machines = 8
		takes    = 10 * time.Second
		timeout  = 25 * time.Second
	)

	e := newEvacuees(t, evacuation.Limits{MaxPerDeployment: machines, Deadline: time.Hour, MigrationTimeout: timeout})
	z := addZone(t, 2)

	kubectl(t, "cordon", z.hosts[1])
	e.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.MigrationLatencyAnnotation: takes.String()}})

	all := e.addIn(t, z.name, machines, migratedByDriver)
	awaitMigratable(t, e.Shoot, machines)
	kubectl(t, "uncordon", z.hosts[1])

	for _, m := range all {
		evict(t, e.Shoot, m.Name())
	}

	var first, last time.Time

	for _, m := range all {
		e.told.await(t, m, "EvacuationEnded", "migrated")
		e.requireKept(t, m)

		instance, err := e.KubeVirt.KubevirtV1().VirtualMachineInstances(e.ProviderNamespace).Get(t.Context(), m.Name(), metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, z.hosts[1], instance.Status.NodeName)

		begun := instance.Status.MigrationState.StartTimestamp.Time
		if first.IsZero() || begun.Before(first) {
			first = begun
		}

		if begun.After(last) {
			last = begun
		}
	}

	require.NotContains(t, e.told.String(), "EvacuationReplacing")
	require.Greater(t, last.Sub(first), timeout, "the last machine must have waited for longer than the queue's timeout")
}

// TestForeignMigrationsAreAwaited drains a node while migrations of another shoot's machines take the
// two places of the node in KubeVirt's queue: a machine is not replaced, although its migration does
// not begin for longer than the time in which the shoot's own queue must progress.
func TestForeignMigrationsAreAwaited(t *testing.T) {
	t.Parallel()

	// The target of a migration that has left the queue must start within this time.
	const timeout = time.Minute

	tests := map[string]struct {
		reason  string
		prepare func(*testing.T, *evacuees, *harness.Machine)
	}{
		"OwnMigration": {
			reason:  "virt-controller queues the driver's migration",
			prepare: func(*testing.T, *evacuees, *harness.Machine) {},
		},
		"MigrationOfUser": {
			reason: "virt-api rejects the driver's migration, since a user's is queued",
			prepare: func(t *testing.T, e *evacuees, m *harness.Machine) {
				t.Helper()
				guests.StartMigration(t, e.Shoot, m.Name())
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := newEvacuees(t, evacuation.Limits{MaxPerDeployment: 1, Deadline: time.Hour, MigrationTimeout: timeout})
			others := newEvacuees(t, unreached)
			z := addZone(t, 2)

			kubectl(t, "cordon", z.hosts[1])

			running := others.addIn(t, z.name, 2, hanging)
			m := e.addIn(t, z.name, 1, migratedByDriver)[0]
			awaitMigratable(t, others.Shoot, 2)
			awaitMigratable(t, e.Shoot, 1)
			kubectl(t, "uncordon", z.hosts[1])

			release := takePlaces(t, others.Shoot, running)
			tc.prepare(t, e, m)
			evict(t, e.Shoot, m.Name())
			e.told.await(t, m, "EvacuationMigrating", "")

			waiting := onlyMigration(t, e.Shoot)
			guests.AwaitMigration(t, e.Shoot, waiting, "has waited for long", func(m *kubevirtv1.VirtualMachineInstanceMigration) bool {
				return time.Since(m.CreationTimestamp.Time) > timeout+5*time.Second
			})
			require.Equal(t, kubevirtv1.MigrationPending, onlyMigration(t, e.Shoot).Status.Phase, tc.reason)
			e.requireKept(t, m)

			release()
			e.told.await(t, m, "EvacuationEnded", "migrated")
			require.NotContains(t, e.told.String(), "EvacuationReplacing")
			require.NotContains(t, e.told.String(), "EvacuationFailed")
		})
	}
}

// takePlaces begins migrations that hang, and returns a function that ends them.
func takePlaces(t *testing.T, s *harness.Shoot, machines []*harness.Machine) (release func()) {
	t.Helper()

	var migrations []*kubevirtv1.VirtualMachineInstanceMigration

	for _, m := range machines {
		migrations = append(migrations, guests.AwaitMigration(t, s, guests.StartMigration(t, s, m.Name()), "runs", (*kubevirtv1.VirtualMachineInstanceMigration).IsRunning))
	}

	return func() {
		for _, migration := range migrations {
			failWhileRunning(t, s, migration)
		}
	}
}

// onlyMigration returns the only migration in a shoot's namespace of the provider cluster.
func onlyMigration(t *testing.T, s *harness.Shoot) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()

	list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	return &list.Items[0]
}

// awaitMigratable waits until the expected number of guests run and can migrate.
func awaitMigratable(t *testing.T, s *harness.Shoot, count int) {
	t.Helper()

	harness.Eventually(t, "all guests can migrate", func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		found := 0

		for i := range list.Items {
			if list.Items[i].IsRunning() && list.Items[i].IsMigratable() {
				found++
			}
		}

		return found == count, nil
	})
}
