// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// drainSlack is the time allowed for the rest of a deletion, after the drain.
const drainSlack = 30 * time.Minute

// deadlineOf returns a machine's deadline. machine-controller-manager prefers a Machine's own drain
// timeout to its flag (pkg/util/provider/machinecontroller, getEffectiveDrainTimeout), and the
// machine must not be powered off before that timeout.
func (p *planner) deadlineOf(machine *v1alpha1.Machine) time.Duration {
	own := machine.Spec.MachineConfiguration
	if own == nil || own.MachineDrainTimeout == nil {
		return p.limits.Deadline
	}

	return max(p.limits.Deadline, own.MachineDrainTimeout.Duration+drainSlack)
}

// isOverdue reports whether a machine has waited long enough to be evacuated although its pool
// cannot spare it. A queue that advances is healthy, however long it is: the deadline of each
// waiting machine starts again at the pool's last change, such as the creation of a replacement.
//
// The last change of a pool whose machines fail and are recreated forever is always recent. The total
// wait is therefore limited to one deadline for each desired machine, plus one for each other missing
// machine, because a machine that is not replaced extends the wait of the next one.
func (p *planner) isOverdue(e *spi.Evacuation, machine *v1alpha1.Machine, pool *machinePool) bool {
	deadline := p.deadlineOf(machine)
	deadlines := max(pool.desired, 1) + max(p.missing(pool, machine)-1, 0)

	return p.hasExceeded(e, pool.lastChange(), deadline) || p.now.Sub(p.requestedAt(e)) > deadline*time.Duration(deadlines)
}

// lastChange returns the last time at which one of the pool's machines was created or deleted.
func (p *machinePool) lastChange() time.Time {
	var last time.Time

	for _, machine := range p.machines {
		last = later(last, machine.CreationTimestamp.Time)

		if deleted := machine.DeletionTimestamp; deleted != nil {
			last = later(last, deleted.Time)
		}
	}

	return last
}

// waitingSince returns when an evacuation's wait without any progress in its pool began. A live
// migration counts as progress, so that no machine in an advancing queue counts as waiting for long.
func (p *planner) waitingSince(e *spi.Evacuation, pool *machinePool) time.Time {
	return later(p.requestedAt(e), later(pool.lastChange(), p.migrationProgress[pool]))
}

// mayInterrupt reports whether the evacuation of an overdue machine may interrupt the operation that
// blocks it. A step of an in-place update has its own deadline.
func (p *planner) mayInterrupt(machine *v1alpha1.Machine) bool {
	return !isUpdatedInPlace(machine) || p.now.Sub(updateStepBegin(machine)) > p.deadlineOf(machine)
}
