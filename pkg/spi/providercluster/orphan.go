package providercluster

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// orphanage remembers which VirtualMachines were seen without a Machine. It is kept in memory on purpose: a sidecar that
// restarts beside an empty cache takes every machine for an orphan, and begins to count anew each time it does.
type orphanage struct {
	clock clock.PassiveClock
	// memory is how long a sighting counts. Sightings further apart are no pair.
	memory time.Duration

	mu   sync.Mutex
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
	return &orphanage{clock: c, memory: memory, seen: map[types.UID]sightings{}, lists: map[string]list{}}
}

// sight takes note of a sighting and returns how long ago the unbroken row of sightings began.
func (o *orphanage) sight(uid types.UID) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()

	now := o.clock.Now()
	for other, s := range o.seen {
		if now.Sub(s.last) > o.memory {
			delete(o.seen, other)
		}
	}

	s, known := o.seen[uid]
	if !known {
		s.first = now
	}

	s.last = now
	o.seen[uid] = s

	return now.Sub(s.first)
}

// listed takes note of a list. What was in the one before, and was not taken for an orphan since, has a Machine: its row ends.
func (o *orphanage) listed(what string, uids []types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	last := o.lists[what]
	for _, uid := range last.uids {
		if s, known := o.seen[uid]; known && s.last.Before(last.at) {
			delete(o.seen, uid)
		}
	}

	o.lists[what] = list{at: o.clock.Now(), uids: uids}
}

// forget ends a row of sightings: somebody knows a Machine for this VirtualMachine.
func (o *orphanage) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	delete(o.seen, uid)
}

// sightOrphan returns nil if the VirtualMachine may be deleted as an orphan: it has been one for long enough.
func (p *Provider) sightOrphan(s *session, vm *kubevirtv1.VirtualMachine) error {
	left := p.options.OrphanGracePeriod - p.orphans.sight(vm.UID)
	if left <= 0 {
		return nil
	}

	return fmt.Errorf("%w: no Machine is known for VirtualMachine %s; it is deleted if that is still so in %s",
		spi.ErrConflict, s.path(vm.Name), left.Round(time.Second))
}
