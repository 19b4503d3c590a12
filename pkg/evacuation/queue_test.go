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
	places   int
	takes    time.Duration
	machines []string
	created  map[string]time.Time
	started  map[string]time.Time
	ended    map[string]time.Time
	progress time.Time
}

// advance ends the migrations that have run long enough, and starts pending ones in their places.
func (q *migrationQueue) advance(now time.Time) {
	running := 0

	for _, name := range q.machines {
		begun, ok := q.started[name]
		if _, over := q.ended[name]; !ok || over {
			continue
		}

		if now.Sub(begun) < q.takes {
			running++

			continue
		}

		q.ended[name], q.progress = now, now
	}

	for _, name := range q.machines {
		_, created := q.created[name]
		if _, begun := q.started[name]; !created || begun || running >= q.places {
			continue
		}

		q.started[name], q.progress = now, now
		running++
	}
}

// evacuations returns the evacuations of machines that have not left the node yet.
func (q *migrationQueue) evacuations() []spi.Evacuation {
	var list []spi.Evacuation

	for _, name := range q.machines {
		if _, over := q.ended[name]; over {
			continue
		}

		e := spi.Evacuation{Machine: name, Node: "host", Since: start, Migratable: true, MigrationProgress: q.progress}

		if created, ok := q.created[name]; ok {
			e.Migration, e.MigrationSince = spi.MigrationPending, created
		}

		if begun, ok := q.started[name]; ok {
			e.Migration, e.MigrationSince = spi.MigrationRunning, begun
		}

		list = append(list, e)
	}

	return list
}

func newMigrationQueue(machines, places int) (*migrationQueue, *fleet) {
	q := &migrationQueue{
		places: places, takes: 3 * time.Minute,
		created: map[string]time.Time{}, started: map[string]time.Time{}, ended: map[string]time.Time{},
	}
	in := situation{desired: int32(machines)}

	for i := range machines {
		name := fmt.Sprintf("machine-%02d", i)
		q.machines = append(q.machines, name)
		in.machines = append(in.machines, machineNamed(name, v1alpha1.MachineRunning))
	}

	return q, in.fleet()
}

// TestMigrationsMayQueue drains a node of 60 machines. KubeVirt migrates two at a time, so that the
// last one waits for 87 minutes.
func TestMigrationsMayQueue(t *testing.T) {
	t.Parallel()

	const machines = 60

	q, fleet := newMigrationQueue(machines, 2)
	all := Limits{MaxPerDeployment: machines, Deadline: 150 * time.Minute, MigrationTimeout: 30 * time.Minute}

	for now := start; len(q.ended) < machines; now = now.Add(5 * time.Second) {
		require.Less(t, now.Sub(start), 2*time.Hour, "the drain ends")
		q.advance(now)

		for _, next := range plan(now, all, fleet, q.evacuations()) {
			require.Contains(t, []action{migrate, moving}, next.do, "%s after %s: %s", next.evacuation.Machine, now.Sub(start), next.why)

			if next.do == migrate {
				q.created[next.evacuation.Machine] = now
			}
		}
	}
}

// TestStandingQueueIsLeft drains a node while KubeVirt's queue is
// stuck, from the beginning or after a while.
func TestStandingQueueIsLeft(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		created  time.Duration
		progress time.Duration // 0 if there has been none
		want     string
	}{
		"Young":        {"it may begin yet", 9 * time.Minute, 0, "a Moving Pending"},
		"NeverMoved":   {"virt-controller is dead", 11 * time.Minute, 0, "a Replace no live migration from its node has advanced for 10m"},
		"Moves":        {"others have their turn", 59 * time.Minute, 9 * time.Minute, "a Moving Pending"},
		"MovesNoMore":  {"virt-controller has died", 59 * time.Minute, 11 * time.Minute, "a Replace no live migration from its node has advanced for 10m"},
		"MovedBefore":  {"its own time has not passed", 9 * time.Minute, 59 * time.Minute, "a Moving Pending"},
		"MovesTooLong": {"the deadline wins", 61 * time.Minute, time.Minute, "a Replace its live migration has not begun for 1h"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			in := running(3).leave("a", 2*time.Hour, migration(spi.MigrationPending, tc.created), func(e *spi.Evacuation) {
				if tc.progress > 0 {
					e.MigrationProgress = start.Add(-tc.progress)
				}
			})
			requireSteps(t, []string{tc.want}, plan(start, limits, in.fleet(), in.list), tc.reason)
		})
	}
}
