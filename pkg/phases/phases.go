// Package phases measures where the time goes between a Machine and its Node: how long machines took for each step, and which wait for
// one now. pkg/kubevirt tells it of the steps on the provider cluster, cmd/machine-controller of the last one, on the target cluster. It
// must not know where they know it from. No label of its metrics is made of a name.
package phases

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// Phase is one step of a machine, named after what it leads to.
type Phase string

const (
	// Accepted is from the Machine until its VirtualMachine is there.
	Accepted Phase = "accepted"
	// Image is from there until the machine's disks are there, and with them its pod: imports, clones and quota of pods.
	Image Phase = "image"
	// Scheduled is from there until a provider node has the machine.
	Scheduled Phase = "scheduled"
	// Running is from there until the guest runs.
	Running Phase = "running"
	// Joined is from when machine-controller-manager knows that the machine was scheduled until its Node is ready.
	Joined Phase = "joined"
)

const (
	// forgetAfter drops a machine that nobody tells of any more, as after another process took it over. machine-controller-manager asks
	// for those that are not there yet every ten minutes at least.
	forgetAfter = 15 * time.Minute
	// maxWaiting bounds how many machines are remembered that wait, and maxCounted how many that were counted.
	maxWaiting, maxCounted = 10_000, 10_000
)

// Tracker keeps the phases of machines, by the Machines' UIDs. It is a collector, and safe for concurrent use. Losing it, on a restart,
// costs what was counted, as with every counter; no machine is counted again that machine-controller-manager asks for no more.
type Tracker struct {
	clock   clock.PassiveClock
	metrics map[Phase]*phaseMetrics

	mu      sync.Mutex
	waiting map[types.UID]wait
	counted *lru.Cache
}

// wait is what a machine waits for.
type wait struct {
	phase Phase
	since time.Time
	// told is when somebody said so last.
	told time.Time
}

// NewTracker returns a tracker of some phases. Those of all trackers in one registry must differ.
func NewTracker(c clock.PassiveClock, list ...Phase) *Tracker {
	t := &Tracker{
		clock: c, metrics: map[Phase]*phaseMetrics{},
		waiting: map[types.UID]wait{}, counted: lru.New(maxCounted),
	}
	for _, phase := range list {
		t.metrics[phase] = newPhaseMetrics(phase)
	}

	return t
}

// Waits says that a machine is in a phase since then. It has to be said again now and then.
func (t *Tracker) Waits(machine types.UID, in Phase, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if _, known := t.waiting[machine]; known || len(t.waiting) < maxWaiting {
		t.waiting[machine] = wait{phase: in, since: since, told: t.clock.Now()}
	}
}

// Done says that a machine is through, and how long it took for the phases of which that is known. Saying it again changes nothing.
func (t *Tracker) Done(machine types.UID, took map[Phase]time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()

	delete(t.waiting, machine)

	if _, before := t.counted.Get(machine); before {
		return
	}

	t.counted.Add(machine, nil)

	for phase, duration := range took {
		// The two ends may have been written down by different clocks.
		t.metrics[phase].duration.Observe(max(0, duration.Seconds()))
	}
}

// Forget says that a machine does not wait any more, for another reason than that it is through.
func (t *Tracker) Forget(machine types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()

	delete(t.waiting, machine)
}

// standing is how many machines are in a phase, and for how long the first of them has been.
type standing struct {
	count   int
	longest time.Duration
}

func (t *Tracker) standings() map[Phase]standing {
	t.mu.Lock()
	defer t.mu.Unlock()

	now, all := t.clock.Now(), map[Phase]standing{}

	for machine, w := range t.waiting {
		if now.Sub(w.told) > forgetAfter {
			delete(t.waiting, machine)

			continue
		}

		s := all[w.phase]
		all[w.phase] = standing{count: s.count + 1, longest: max(s.longest, now.Sub(w.since))}
	}

	return all
}

var _ prometheus.Collector = (*Tracker)(nil)

// Describe implements prometheus.Collector.
func (t *Tracker) Describe(descriptions chan<- *prometheus.Desc) {
	for _, m := range t.metrics {
		m.describe(descriptions)
	}
}

// Collect implements prometheus.Collector.
func (t *Tracker) Collect(samples chan<- prometheus.Metric) {
	now := t.standings()
	for phase, m := range t.metrics {
		m.collect(now[phase], samples)
	}
}
