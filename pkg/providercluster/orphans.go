// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxSighters bounds the processes whose sightings of one VirtualMachine are remembered.
const maxSighters = 10

// sightings is an uninterrupted sequence of calls in which a process reported a VirtualMachine as an
// orphan. It is deliberately in memory, and per process: a machine controller that restarts with an
// empty cache reports every machine as an orphan. The grace period must begin again with each such
// restart, even if the driver is another process that keeps running.
type sightings struct {
	first, last time.Time
	// listed is when the process last listed the VirtualMachine, since the first sighting.
	// Before its next list, machine-controller-manager requests the deletion of each orphan in a list.
	listed time.Time
}

// recordSighting records a sighting, and returns how long ago the caller's uninterrupted sequence of
// sightings began. Sightings with a longer interval than their retention are unrelated.
func (m *Machines) recordSighting(by caller.ID, key machineKey) (lasted time.Duration) {
	now := m.options.Clock.Now()

	m.use(key, func(r *record) {
		seen, known := r.sightings[by]
		if !known || now.Sub(seen.last) > m.sightingRetention {
			seen = sightings{first: now}
		}

		if r.sightings == nil || !known && len(r.sightings) >= maxSighters {
			r.sightings = map[caller.ID]sightings{}
		}

		seen.last = now
		r.sightings[by] = seen
		lasted = now.Sub(seen.first)
	})

	return lasted
}

// recordListing records that a process has listed a VirtualMachine. One that it has not reported as an
// orphan since its previous list has a Machine: its sequence of sightings ends.
func (m *Machines) recordListing(by caller.ID, key machineKey) {
	m.peek(key, func(r *record) {
		seen, known := r.sightings[by]

		switch {
		case !known:
		case seen.last.Before(seen.listed):
			delete(r.sightings, by)
		default:
			seen.listed = m.options.Clock.Now()
			r.sightings[by] = seen
		}
	})
}

// endSightings ends all sequences of sightings of a VirtualMachine that has a Machine.
func (m *Machines) endSightings(key machineKey) {
	m.peek(key, func(r *record) { r.sightings = nil })
}

// checkOrphan returns nil if the VirtualMachine may be deleted as an orphan: the calling process
// has reported it as one for the grace period.
func (m *Machines) checkOrphan(ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine) error {
	by := caller.Of(ctx)
	if by == caller.Unknown { // It may stand for several processes.
		return spi.WithRemedy(spi.Errorf(spi.ErrConflict, "VirtualMachine %s has no Machine, and the client does not identify its process: "+
			"the driver does not delete orphans for such a client", c.Path(vm.Name)),
			"delete the VirtualMachine, or let the client identify its process")
	}

	left := m.options.OrphanGracePeriod - m.recordSighting(by, keyOf(c, vm.Name, vm.UID))
	if left <= 0 {
		return nil
	}

	return spi.Errorf(spi.ErrConflict, "VirtualMachine %s has no Machine; it will be deleted if that has not changed in %s",
		c.Path(vm.Name), left.Round(time.Second))
}
