package providercluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxRemembered bounds what is remembered of all callers together, in VirtualMachines and lists: tens of megabytes.
const maxRemembered = 500_000

// orphanage remembers which VirtualMachines were seen without a Machine, and by which process. It is kept in memory, and by process, on
// purpose: a machine controller that restarts beside an empty cache takes every machine for an orphan, and begins to count anew each
// time it does, also if the driver is another process and lives on.
type orphanage struct {
	clock clock.PassiveClock
	// memory is how long a sighting counts. Sightings further apart are no pair.
	memory time.Duration

	mu      sync.Mutex
	callers map[caller.ID]*witness
}

// witness is what one process has seen.
type witness struct {
	// last is when it was heard of last.
	last time.Time
	seen map[types.UID]sightings
	// lists are the last ones, by what was listed.
	lists map[string]list
}

// list is one of machine-controller-manager's passes over the machines: of those in it, it has every orphan deleted before it lists
// them again.
type list struct {
	at   time.Time
	uids []types.UID
}

type sightings struct{ first, last time.Time }

func newOrphanage(c clock.PassiveClock, memory time.Duration) *orphanage {
	return &orphanage{clock: c, memory: memory, callers: map[caller.ID]*witness{}}
}

// sight takes note of a sighting and returns how long ago the caller's unbroken row of sightings began.
func (o *orphanage) sight(by caller.ID, uid types.UID) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()

	now := o.clock.Now()
	w := o.witness(by, now)

	s, known := w.seen[uid]
	if !known {
		s.first = now
	}

	s.last = now
	w.seen[uid] = s

	o.shrink()

	return now.Sub(s.first)
}

// listed takes note of a list. What was in the caller's one before, and was not taken for an orphan since, has a Machine: its row ends.
func (o *orphanage) listed(by caller.ID, what string, uids []types.UID) {
	if by == caller.Unknown { // It has no rows, and lists of several processes are no pair.
		return
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	now := o.clock.Now()
	w := o.witness(by, now)

	last := w.lists[what]
	for _, uid := range last.uids {
		if s, known := w.seen[uid]; known && s.last.Before(last.at) {
			delete(w.seen, uid)
		}
	}

	w.lists[what] = list{at: now, uids: uids}

	o.shrink()
}

// forget ends all rows of sightings: somebody knows a Machine for this VirtualMachine.
func (o *orphanage) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	for _, w := range o.callers {
		delete(w.seen, uid)
	}
}

// witness returns what a caller has seen, and forgets whatever does not count any more.
func (o *orphanage) witness(by caller.ID, now time.Time) *witness {
	for id, w := range o.callers {
		if now.Sub(w.last) > o.memory {
			delete(o.callers, id)
		}
	}

	w := o.callers[by]
	if w == nil {
		w = &witness{seen: map[types.UID]sightings{}, lists: map[string]list{}}
		o.callers[by] = w
	}

	w.last = now
	w.forgetBefore(now.Add(-o.memory))

	return w
}

func (w *witness) forgetBefore(limit time.Time) {
	for uid, s := range w.seen {
		if s.last.Before(limit) {
			delete(w.seen, uid)
		}
	}

	// Such a list could end only rows that are forgotten.
	for what, l := range w.lists {
		if l.at.Before(limit) {
			delete(w.lists, what)
		}
	}
}

// shrink forgets whole callers, those first that were silent for longest. Never a list alone: without it, rows would not end.
func (o *orphanage) shrink() {
	size := 0
	for _, w := range o.callers {
		size += w.size()
	}

	for size > maxRemembered {
		oldest := o.silentLongest()
		size -= o.callers[oldest].size()
		delete(o.callers, oldest)
	}
}

func (o *orphanage) silentLongest() (oldest caller.ID) {
	var since time.Time

	for id, w := range o.callers {
		if since.IsZero() || w.last.Before(since) {
			oldest, since = id, w.last
		}
	}

	return oldest
}

func (w *witness) size() int {
	size := 1 + len(w.seen)
	for _, l := range w.lists {
		size += 1 + len(l.uids)
	}

	return size
}

// sightOrphan returns nil if the VirtualMachine may be deleted as an orphan: the process that asks has known it as one for long enough.
func (p *Provider) sightOrphan(ctx context.Context, s *session, vm *kubevirtv1.VirtualMachine) error {
	by := caller.Of(ctx)
	if by == caller.Unknown {
		return spi.WithRemedy(spi.Errorf(spi.ErrConflict, "no Machine is known for VirtualMachine %s, and the client does not identify its "+
			"process: the driver deletes no orphans for such a client", s.path(vm.Name)),
			"delete the VirtualMachine, or let the client identify its process")
	}

	left := p.options.OrphanGracePeriod - p.orphans.sight(by, vm.UID)
	if left <= 0 {
		return nil
	}

	return spi.Errorf(spi.ErrConflict, "no Machine is known for VirtualMachine %s; it is deleted if that is still so in %s",
		s.path(vm.Name), left.Round(time.Second))
}
