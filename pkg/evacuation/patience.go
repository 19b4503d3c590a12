package evacuation

import (
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// drainSlack is what a deletion may take beside the drain.
const drainSlack = 30 * time.Minute

// deadlineOf returns a machine's deadline. machine-controller-manager prefers a Machine's own drain timeout to its flag
// (pkg/util/provider/machinecontroller, getEffectiveDrainTimeout), and pods must not go down with their node before that is over.
func (p *planner) deadlineOf(machine *v1alpha1.Machine) time.Duration {
	own := machine.Spec.MachineConfiguration
	if own == nil || own.MachineDrainTimeout == nil {
		return p.limits.Deadline
	}

	return max(p.limits.Deadline, own.MachineDrainTimeout.Duration+drainSlack)
}

// overdue says whether a machine has waited long enough to leave a pool that cannot spare it. A queue that moves is healthy, however
// long it is: whoever waits in it has its deadline after the last change, and so has the successor of the one that left before.
//
// A pool whose machines fail and are made again for ever changes too. Patience with it ends after a deadline for each machine it is
// to have, and for each other one that is missing: what leaves without a successor gives the next more time.
func (p *planner) overdue(e *spi.Evacuation, machine *v1alpha1.Machine, in *pool) bool {
	deadline := p.deadlineOf(machine)
	turns := max(in.desired, 1) + max(p.missing(in, machine)-1, 0)

	return p.takesTooLong(e, in.progress(), deadline) || p.now.Sub(p.since(e)) > deadline*time.Duration(turns)
}

// progress returns when the last of the pool's machines came or began to go.
func (p *pool) progress() time.Time {
	var last time.Time

	for _, machine := range p.machines {
		last = later(last, machine.CreationTimestamp.Time)

		if deleted := machine.DeletionTimestamp; deleted != nil {
			last = later(last, deleted.Time)
		}
	}

	return last
}

// waitsSince returns since when an evacuation waits while nothing moves in its pool, live migrations included: in a queue that moves, nobody
// has waited for long.
func (p *planner) waitsSince(e *spi.Evacuation, in *pool) time.Time {
	return later(p.since(e), later(in.progress(), p.migrated[in]))
}

// mayCutShort says whether what holds an overdue machine may be ended. A step of an update in place has a deadline of its own.
func (p *planner) mayCutShort(machine *v1alpha1.Machine) bool {
	return !updatedInPlace(machine) || p.now.Sub(updateStep(machine)) > p.deadlineOf(machine)
}
