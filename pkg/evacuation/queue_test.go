// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// migrationQueue simulates KubeVirt's queue of live migrations off one node: it runs a few at a
// time, in the order of their creation.
type migrationQueue struct {
	parallel int
	latency  time.Duration
	machines []string
	created  map[string]time.Time
	started  map[string]time.Time
	ended    map[string]time.Time
	progress time.Time
}

// advance ends the migrations that have run long enough, and starts pending ones.
func (q *migrationQueue) advance(now time.Time) {
	running := 0

	for _, name := range q.machines {
		startedAt, ok := q.started[name]
		if _, over := q.ended[name]; !ok || over {
			continue
		}

		if now.Sub(startedAt) < q.latency {
			running++

			continue
		}

		q.ended[name] = now
		q.progress = now
	}

	for _, name := range q.machines {
		_, created := q.created[name]
		if _, started := q.started[name]; !created || started || running >= q.parallel {
			continue
		}

		q.started[name] = now
		q.progress = now
		running++
	}
}

// evacuations returns the evacuations of machines that are still on the node.
func (q *migrationQueue) evacuations() []spi.Evacuation {
	var list []spi.Evacuation

	for _, name := range q.machines {
		if _, over := q.ended[name]; over {
			continue
		}

		e := spi.Evacuation{Machine: name, Node: "host", RequestedAt: start, Migratable: true, MigrationProgressAt: q.progress}

		if created, ok := q.created[name]; ok {
			e.Migration = spi.MigrationPending
			e.MigrationSince = created
		}

		if startedAt, ok := q.started[name]; ok {
			e.Migration = spi.MigrationRunning
			e.MigrationSince = startedAt
		}

		list = append(list, e)
	}

	return list
}

func newMigrationQueue(machines, parallel int) (*migrationQueue, *fleet) {
	q := &migrationQueue{
		parallel: parallel,
		latency:  3 * time.Minute,
		created:  map[string]time.Time{},
		started:  map[string]time.Time{},
		ended:    map[string]time.Time{},
	}
	in := situation{desired: int32(machines)}

	for i := range machines {
		name := fmt.Sprintf("machine-%02d", i)
		q.machines = append(q.machines, name)
		in.machines = append(in.machines, machineNamed(name, v1alpha1.MachineRunning))
	}

	return q, in.fleet()
}

// TestPlan_QueuedMigrations drains a node of 60 machines. KubeVirt migrates two at a time, so that the
// last one waits for 87 minutes.
func TestPlan_QueuedMigrations(t *testing.T) {
	t.Parallel()

	const machines = 60

	q, fleet := newMigrationQueue(machines, 2)
	all := Limits{MaxPerDeployment: machines, Deadline: 150 * time.Minute, MigrationTimeout: 30 * time.Minute}

	for now := start; len(q.ended) < machines; now = now.Add(5 * time.Second) {
		require.Less(t, now.Sub(start), 2*time.Hour, "the drain ends")
		q.advance(now)

		for _, next := range plan(now, all, fleet, q.evacuations(), nil) {
			require.Contains(t, []action{migrate, migrating}, next.action, "%s after %s: %s", next.evacuation.Machine, now.Sub(start), next.reason)

			if next.action == migrate {
				q.created[next.evacuation.Machine] = now
			}
		}
	}
}

// TestPlan_ForeignQueue drains a node while KubeVirt runs only foreign migrations. Since KubeVirt 1.9,
// migrations that KubeVirt itself creates have precedence.
func TestPlan_ForeignQueue(t *testing.T) {
	t.Parallel()

	for created, want := range map[time.Duration]string{
		59 * time.Minute: "a Migrating Pending",
		61 * time.Minute: "a Replace its live migration has not begun for 1h",
	} {
		in := running(3).evacuate("a", 2*time.Hour, migration(spi.MigrationPending, created), func(e *spi.Evacuation) { e.MigrationQueued = true })
		requireSteps(t, []string{want}, plan(start, limits, in.fleet(), in.list, nil), "only the deadline bounds the wait")
	}
}

// TestPlan_ForeignMigration drains a node from which another client already migrates the machine. The
// driver cannot cancel that.
func TestPlan_ForeignMigration(t *testing.T) {
	t.Parallel()

	for since, want := range map[time.Duration]string{
		59 * time.Minute: "a Migrating requested by another client",
		61 * time.Minute: "a Replace its live migration has not ended for 1h",
	} {
		in := running(3).evacuate("a", 2*time.Hour, migration(spi.MigrationForeign, since))
		requireSteps(t, []string{want}, plan(start, limits, in.fleet(), in.list, nil), "only the deadline bounds the wait")
	}

	in := running(3).with("a", deleted(time.Minute)).evacuate("a", time.Minute, migration(spi.MigrationForeign, time.Minute))
	requireSteps(t, []string{"a Replacing"}, plan(start, limits, in.fleet(), in.list, nil), "it sends no request")
}

// TestPlan_StalledQueue drains a node while KubeVirt's queue is
// stalled, from the beginning or after a while.
func TestPlan_StalledQueue(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		created  time.Duration
		progress time.Duration // 0 if there has been none
		want     string
	}{
		"Young":            {"it may still begin", 9 * time.Minute, 0, "a Migrating Pending"},
		"NeverAdvanced":    {"virt-controller is dead", 11 * time.Minute, 0, "a Replace no live migration from its node has advanced for 10m"},
		"Advances":         {"other migrations advance", 59 * time.Minute, 9 * time.Minute, "a Migrating Pending"},
		"StoppedAdvancing": {"virt-controller has died", 59 * time.Minute, 11 * time.Minute, "a Replace no live migration from its node has advanced for 10m"},
		"AdvancedBefore":   {"its own time has not passed", 9 * time.Minute, 59 * time.Minute, "a Migrating Pending"},
		"AdvancesTooLong":  {"the deadline wins", 61 * time.Minute, time.Minute, "a Replace its live migration has not begun for 1h"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			in := running(3).evacuate("a", 2*time.Hour, migration(spi.MigrationPending, tc.created), func(e *spi.Evacuation) {
				if tc.progress > 0 {
					e.MigrationProgressAt = start.Add(-tc.progress)
				}
			})
			requireSteps(t, []string{tc.want}, plan(start, limits, in.fleet(), in.list, nil), tc.reason)
		})
	}
}
