// Package phases measures the time from the creation of a Machine until its Node is ready: the
// duration of each phase, and the machines that are in it now. pkg/kubevirt reports the phases on
// the provider cluster, cmd/machine-controller the last one, on the target cluster. It must not
// depend on either of them. No metric label contains a name.
package phases

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// Phase is one phase of a machine's creation, named after its result.
type Phase string

const (
	// Accepted begins with the Machine and ends when its VirtualMachine exists.
	Accepted Phase = "accepted"
	// Image follows Accepted and ends when the machine's disks exist, and with them its pod:
	// imports, clones and quota for pods.
	Image Phase = "image"
	// Scheduled follows Image and ends when the machine is scheduled to a provider node.
	Scheduled Phase = "scheduled"
	// Running follows Scheduled and ends when the guest runs.
	Running Phase = "running"
	// Joined begins when machine-controller-manager has learned that the machine was scheduled, and
	// ends when its Node is ready.
	Joined Phase = "joined"
)

const (
	// forgetAfter drops a machine that is no longer reported, for example because another process
	// took it over. machine-controller-manager checks pending machines at least every ten minutes.
	forgetAfter = 15 * time.Minute
	// maxWaiting bounds the waiting machines that are tracked, and
	// maxCounted those that were counted.
	maxWaiting, maxCounted = 10_000, 10_000
)

// Tracker tracks the phases of machines, by the Machines' UIDs. It is a collector, and safe for
// concurrent use. A restart loses the counts, as with every counter; a machine that
// machine-controller-manager no longer polls is not counted again.
type Tracker struct {
	clock   clock.PassiveClock
	metrics map[Phase]*phaseMetrics

	mu      sync.Mutex
	waiting map[types.UID]wait
	counted *lru.Cache
}

// wait is the phase that a machine is in.
type wait struct {
	phase Phase
	since time.Time
	// reported is the time of the last report.
	reported time.Time
}

// NewTracker returns a tracker of some phases. Trackers in one registry must have different phases.
func NewTracker(c clock.PassiveClock, list ...Phase) *Tracker {
	t := &Tracker{
		clock:   c,
		metrics: map[Phase]*phaseMetrics{},
		waiting: map[types.UID]wait{},
		counted: lru.New(maxCounted),
	}
	for _, phase := range list {
		t.metrics[phase] = newPhaseMetrics(phase)
	}

	return t
}

// SetWaiting reports that a machine has been in a phase since the given time. It must be called
// again from time to time, or the machine is dropped.
func (t *Tracker) SetWaiting(machine types.UID, in Phase, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if _, known := t.waiting[machine]; known || len(t.waiting) < maxWaiting {
		t.waiting[machine] = wait{phase: in, since: since, reported: t.clock.Now()}
	}
}

// Done reports that a machine has completed its phases, with the durations that are known. Further
// calls change nothing.
func (t *Tracker) Done(machine types.UID, took map[Phase]time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()

	delete(t.waiting, machine)

	if _, before := t.counted.Get(machine); before {
		return
	}

	t.counted.Add(machine, nil)

	for phase, duration := range took {
		// The two timestamps may come from different clocks.
		t.metrics[phase].duration.Observe(max(0, duration.Seconds()))
	}
}

// Forget reports that a machine no longer waits, although it has not completed its phases.
func (t *Tracker) Forget(machine types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()

	delete(t.waiting, machine)
}

// standing is the number of machines in a phase, and how long the first of them has been in it.
type standing struct {
	count   int
	longest time.Duration
}

func (t *Tracker) standings() map[Phase]standing {
	t.mu.Lock()
	defer t.mu.Unlock()

	now := t.clock.Now()
	all := map[Phase]standing{}

	for machine, w := range t.waiting {
		if now.Sub(w.reported) > forgetAfter {
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
