package providercluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxRemembered bounds the number of VirtualMachines and lists that are kept for all callers: tens
// of megabytes.
const maxRemembered = 500_000

// orphanTracker tracks the VirtualMachines without a Machine, by the process that reported them. It
// is deliberately in memory, and per process: a machine controller that restarts with an empty
// cache reports every machine as an orphan. The grace period must begin again with each such
// restart, even if the driver is another process that keeps running.
type orphanTracker struct {
	clock clock.PassiveClock
	// memory is how long an observation is remembered. Observations with a longer interval are
	// unrelated.
	memory time.Duration

	mu      sync.Mutex
	callers map[caller.ID]*callerObservations
}

// callerObservations are the observations and lists of one process.
type callerObservations struct {
	// lastCall is when the process last called.
	lastCall time.Time
	orphans  map[types.UID]observations
	// lists are the latest lists, by their selector.
	lists map[string]list
}

// list is the result of ListMachines. Before its next list, machine-controller-manager requests the
// deletion of each orphan in it.
type list struct {
	at   time.Time
	uids []types.UID
}

// observations is an uninterrupted sequence of observations of an orphan.
type observations struct{ first, last time.Time }

func newOrphanTracker(c clock.PassiveClock, memory time.Duration) *orphanTracker {
	return &orphanTracker{clock: c, memory: memory, callers: map[caller.ID]*callerObservations{}}
}

// recordObservation records an observation, and returns how long ago the caller's uninterrupted
// sequence of observations began.
func (o *orphanTracker) recordObservation(by caller.ID, uid types.UID) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()

	now := o.clock.Now()
	w := o.forCaller(by, now)

	seen, known := w.orphans[uid]
	if !known {
		seen.first = now
	}

	seen.last = now
	w.orphans[uid] = seen

	o.shrink()

	return now.Sub(seen.first)
}

// recordList records a list. A VirtualMachine of the caller's previous list that was not reported
// as an orphan since has a Machine: its sequence of observations ends.
func (o *orphanTracker) recordList(by caller.ID, what string, uids []types.UID) {
	if by == caller.Unknown { // It has no observations, and may stand for several processes.
		return
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	now := o.clock.Now()
	w := o.forCaller(by, now)

	last := w.lists[what]
	for _, uid := range last.uids {
		if seen, known := w.orphans[uid]; known && seen.last.Before(last.at) {
			delete(w.orphans, uid)
		}
	}

	w.lists[what] = list{at: now, uids: uids}

	o.shrink()
}

// forget ends all sequences of observations of a VirtualMachine that has a Machine.
func (o *orphanTracker) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	for _, w := range o.callers {
		delete(w.orphans, uid)
	}
}

// forCaller returns the observations of a caller, and removes outdated observations of all callers.
func (o *orphanTracker) forCaller(by caller.ID, now time.Time) *callerObservations {
	for id, w := range o.callers {
		if now.Sub(w.lastCall) > o.memory {
			delete(o.callers, id)
		}
	}

	w := o.callers[by]
	if w == nil {
		w = &callerObservations{orphans: map[types.UID]observations{}, lists: map[string]list{}}
		o.callers[by] = w
	}

	w.lastCall = now
	w.removeBefore(now.Add(-o.memory))

	return w
}

func (w *callerObservations) removeBefore(limit time.Time) {
	for uid, seen := range w.orphans {
		if seen.last.Before(limit) {
			delete(w.orphans, uid)
		}
	}

	// An outdated list could end only sequences that were removed above.
	for what, l := range w.lists {
		if l.at.Before(limit) {
			delete(w.lists, what)
		}
	}
}

// shrink removes callers, beginning with those that have not called for the longest time. It never
// removes only a list, which is needed to end sequences of observations.
func (o *orphanTracker) shrink() {
	size := 0
	for _, w := range o.callers {
		size += w.size()
	}

	for size > maxRemembered {
		oldest := o.leastRecentCaller()
		size -= o.callers[oldest].size()
		delete(o.callers, oldest)
	}
}

func (o *orphanTracker) leastRecentCaller() (oldest caller.ID) {
	var since time.Time

	for id, w := range o.callers {
		if since.IsZero() || w.lastCall.Before(since) {
			oldest = id
			since = w.lastCall
		}
	}

	return oldest
}

func (w *callerObservations) size() int {
	size := 1 + len(w.orphans)
	for _, l := range w.lists {
		size += 1 + len(l.uids)
	}

	return size
}

// checkOrphan returns nil if the VirtualMachine may be deleted as an orphan: the calling process
// has reported it as one for the grace period.
func (m *Machines) checkOrphan(ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine) error {
	by := caller.Of(ctx)
	if by == caller.Unknown {
		return spi.WithRemedy(spi.Errorf(spi.ErrConflict, "no Machine is known for VirtualMachine %s, and the client does not identify its "+
			"process: the driver deletes no orphans for such a client", c.Path(vm.Name)),
			"delete the VirtualMachine, or let the client identify its process")
	}

	left := m.options.OrphanGracePeriod - m.orphans.recordObservation(by, vm.UID)
	if left <= 0 {
		return nil
	}

	return spi.Errorf(spi.ErrConflict, "no Machine is known for VirtualMachine %s; it is deleted if this is still the case in %s",
		c.Path(vm.Name), left.Round(time.Second))
}
