package evacuation

import (
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// drainSlack is the time that a deletion may take in addition to the drain.
const drainSlack = 30 * time.Minute

// deadlineOf returns a machine's deadline. machine-controller-manager prefers a Machine's own drain
// timeout to its flag (pkg/util/provider/machinecontroller, getEffectiveDrainTimeout), and pods
// must not go down with their node before that timeout.
func (p *planner) deadlineOf(machine *v1alpha1.Machine) time.Duration {
	own := machine.Spec.MachineConfiguration
	if own == nil || own.MachineDrainTimeout == nil {
		return p.limits.Deadline
	}

	return max(p.limits.Deadline, own.MachineDrainTimeout.Duration+drainSlack)
}

// overdue reports whether a machine has waited long enough to leave a pool that cannot spare it. A
// queue that advances is healthy, however long it is: the deadline of each waiting machine starts
// again at the pool's last change, such as the creation of a successor.
//
// A pool whose machines fail and are recreated forever keeps changing too. The wait therefore ends
// after one deadline for each desired machine, and one for each other missing machine: a machine
// that leaves without a successor gives the next one more time.
func (p *planner) overdue(e *spi.Evacuation, machine *v1alpha1.Machine, in *pool) bool {
	deadline := p.deadlineOf(machine)
	turns := max(in.desired, 1) + max(p.missing(in, machine)-1, 0)

	return p.takesTooLong(e, in.progress(), deadline) || p.now.Sub(p.since(e)) > deadline*time.Duration(turns)
}

// progress returns the last time at which one of the pool's machines was created or deleted.
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

// waitsSince returns since when an evacuation has waited without any progress in its pool,
// including live migrations: in a queue that advances, no machine counts as waiting for long.
func (p *planner) waitsSince(e *spi.Evacuation, in *pool) time.Time {
	return later(p.since(e), later(in.progress(), p.migrated[in]))
}

// mayCutShort reports whether the operation that holds an overdue machine may be interrupted. A
// step of an update in place has its own deadline.
func (p *planner) mayCutShort(machine *v1alpha1.Machine) bool {
	return !updatedInPlace(machine) || p.now.Sub(updateStep(machine)) > p.deadlineOf(machine)
}
