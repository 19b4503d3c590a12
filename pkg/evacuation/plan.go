// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Limits bound the speed of evacuations.
type Limits struct {
	// MaxPerDeployment is the maximum number of Machines per MachineDeployment that may be
	// unavailable or in evacuation at the same time.
	MaxPerDeployment int
	// Deadline bounds three waits. A machine that has waited this long is evacuated even if its
	// MachineDeployment is unhealthy or machine-controller-manager operates on it. A migration that
	// has been running or pending this long counts as failed. A machine whose deletion takes this
	// long is powered off. A Machine with a longer drain timeout has a later deadline.
	Deadline time.Duration
	// MigrationTimeout is how long a migration may wait while neither it nor another migration from
	// the same node advances. KubeVirt runs a few migrations at a time, by default two per node and
	// five per cluster, and queues the others. It does not apply while a migration waits only for
	// foreign migrations.
	MigrationTimeout time.Duration
}

// action is the next action for an evacuation.
type action string

const (
	skip            action = "Skip"            // An orphan: machine-controller-manager deletes it itself.
	wait            action = "Wait"            // The evacuation is blocked for now.
	migrate         action = "Migrate"         // Start a live migration.
	migrating       action = "Migrating"       // A live migration is in progress.
	replace         action = "Replace"         // Delete the Machine: its node is drained and replaced.
	replacing       action = "Replacing"       // The Machine is being deleted.
	cancelMigration action = "CancelMigration" // The Machine is being deleted: cancel its migration.
	powerOff        action = "PowerOff"        // The deletion has exceeded the deadline.
)

// step is an evacuation and its next action.
type step struct {
	evacuation *spi.Evacuation
	machine    *v1alpha1.Machine // nil if there is none
	action     action
	reason     string // the end of the report's message; may be empty
	// waitingSince is the time since which the machine has waited without progress in its pool;
	// zero if it does not wait.
	waitingSince time.Time
}

// planner decides from a snapshot of both clusters. It keeps no state between plans.
type planner struct {
	now    time.Time
	limits Limits
	fleet  *fleet
	// evacuating are the Machines that this plan migrates or deletes, or that are already migrating.
	evacuating map[*v1alpha1.Machine]bool
	// migrationProgress is when the last of a pool's ongoing migrations was created or advanced.
	migrationProgress map[*machinePool]time.Time
}

// plan returns a step for every evacuation, the oldest first. Evacuations whose migration was rejected
// come last, since another machine of the pool may be evacuated instead. rejections maps an instance
// to the time of its last rejection.
func plan(now time.Time, limits Limits, fleet *fleet, list []spi.Evacuation, rejections map[types.UID]time.Time) []step {
	p := &planner{
		now:               now,
		limits:            limits,
		fleet:             fleet,
		evacuating:        map[*v1alpha1.Machine]bool{},
		migrationProgress: map[*machinePool]time.Time{},
	}

	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b spi.Evacuation) int {
		return cmp.Or(rejections[a.UID].Compare(rejections[b.UID]), p.requestedAt(&a).Compare(p.requestedAt(&b)), cmp.Compare(a.Machine, b.Machine))
	})

	for i := range list {
		if machine := fleet.machines[list[i].Machine]; machine != nil && p.isMigrating(&list[i]) {
			p.evacuating[machine] = true
			pool := fleet.pools[machine.Name]
			p.migrationProgress[pool] = later(p.migrationProgress[pool], migrationProgress(&list[i]))
		}
	}

	steps := make([]step, 0, len(list))
	for i := range list {
		steps = append(steps, p.nextStep(&list[i]))
	}

	return steps
}

// requestedAt returns when an evacuation was requested. An evacuation without a time counts as new.
func (p *planner) requestedAt(e *spi.Evacuation) time.Time {
	if e.RequestedAt.IsZero() {
		return p.now
	}

	return e.RequestedAt
}

func (p *planner) nextStep(e *spi.Evacuation) step {
	s := step{evacuation: e, machine: p.fleet.machines[e.Machine]}

	switch {
	case s.machine == nil:
		s.action = skip
		s.reason = "the virtual machine has no Machine"
	case s.machine.DeletionTimestamp != nil:
		s.action, s.reason = p.continueDeletion(e, s.machine)
	case p.isMigrating(e):
		s.action = migrating
		s.reason = "the live migration is " + string(e.Migration)
	default:
		s.action, s.reason = p.start(e, s.machine)
	}

	if s.action == wait {
		s.waitingSince = p.waitingSince(e, p.fleet.pools[e.Machine])
	}

	return s
}

// continueDeletion returns the action for a Machine that machine-controller-manager is already
// deleting, whatever the reason.
func (p *planner) continueDeletion(e *spi.Evacuation, machine *v1alpha1.Machine) (action, string) {
	deadline := p.deadlineOf(machine)

	switch {
	case p.hasExceeded(e, machine.DeletionTimestamp.Time, deadline):
		return powerOff, fmt.Sprintf("the evacuation deadline has passed: its deletion has taken longer than %s", deadline)
	case e.Migration == spi.MigrationPending:
		return cancelMigration, "its Machine is being deleted"
	default:
		return replacing, "its Machine is being deleted"
	}
}

// isMigrating reports whether a migration is in progress and within its time limits.
func (p *planner) isMigrating(e *spi.Evacuation) bool {
	switch e.Migration {
	case spi.MigrationRunning, spi.MigrationForeign:
		return !p.hasExceeded(e, e.MigrationSince, p.limits.Deadline)
	case spi.MigrationPending:
		return !p.hasExceeded(e, e.MigrationSince, p.limits.Deadline) && !p.isQueueStalled(e)
	default:
		return false
	}
}

// isQueueStalled reports whether KubeVirt's queue has not advanced for the migration timeout. A
// migration that waits only for foreign migrations is not stalled, since their progress is unknown:
// the deadline bounds it.
func (p *planner) isQueueStalled(e *spi.Evacuation) bool {
	return !e.MigrationQueued && p.now.Sub(migrationProgress(e)) > p.limits.MigrationTimeout
}

// migrationProgress returns when the migration was created, or a migration from
// the same node advanced, whichever is later.
func migrationProgress(e *spi.Evacuation) time.Time {
	return later(e.MigrationSince, e.MigrationProgressAt)
}

// hasExceeded reports whether an operation that began at the given time has exceeded a deadline.
// Time before the evacuation does not count.
func (p *planner) hasExceeded(e *spi.Evacuation, begin time.Time, deadline time.Duration) bool {
	return p.now.Sub(later(begin, p.requestedAt(e))) > deadline
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

// start returns the action for a machine that is neither being deleted nor migrating.
func (p *planner) start(e *spi.Evacuation, machine *v1alpha1.Machine) (action, string) {
	pool := p.fleet.pools[machine.Name]
	overdue := p.isOverdue(e, machine, pool)
	method, reason := p.method(e)

	if block := machineBlockReason(machine, method, p.now); block != "" && (!overdue || !p.mayInterrupt(machine)) {
		return wait, block
	}

	ongoing := p.countOngoing(pool, overdue)
	if ongoing >= p.limits.MaxPerDeployment {
		return wait, fmt.Sprintf("%s already has %d Machine(s) being deleted or migrated", pool.title(), ongoing)
	}

	// An overdue machine is evacuated although its pool cannot spare it, but not together with others.
	if block := p.poolBlockReason(pool, machine, method); block != "" && (!overdue || ongoing > 0) {
		return wait, block
	}

	p.evacuating[machine] = true

	if overdue {
		waited := fmt.Sprintf("it has waited longer than %s", p.deadlineOf(machine))
		if reason == "" {
			return method, waited
		}

		return method, waited + ", and " + reason
	}

	return method, reason
}

// method returns how to evacuate a machine, and why it is not live-migrated. It prefers a live
// migration, which does not disrupt the shoot.
func (p *planner) method(e *spi.Evacuation) (action, string) {
	switch {
	case e.Migration == spi.MigrationFailed:
		return replace, "its live migration has failed"
	case e.Migration == spi.MigrationPending && p.isQueueStalled(e):
		return replace, fmt.Sprintf("no live migration from its node has advanced for %s", p.limits.MigrationTimeout)
	case e.Migration == spi.MigrationPending:
		return replace, fmt.Sprintf("its live migration has not begun for %s", p.limits.Deadline)
	case e.Migration == spi.MigrationRunning, e.Migration == spi.MigrationForeign:
		return replace, fmt.Sprintf("its live migration has not ended for %s", p.limits.Deadline)
	case e.Migratable:
		return migrate, ""
	case e.NotMigratableReason != "":
		return replace, "it cannot be live-migrated: " + e.NotMigratableReason
	default:
		return replace, "it cannot be live-migrated"
	}
}

// countOngoing returns the number of a pool's machines that are being deleted or migrated. A
// deletion that has exceeded its deadline does not block overdue machines.
func (p *planner) countOngoing(pool *machinePool, overdue bool) int {
	ongoing := 0

	for _, machine := range pool.machines {
		switch deleted := machine.DeletionTimestamp; {
		case deleted == nil && !p.evacuating[machine]:
		case deleted != nil && overdue && p.now.Sub(deleted.Time) > p.deadlineOf(machine):
		default:
			ongoing++
		}
	}

	return ongoing
}

// missing returns the number of a pool's desired machines that are unavailable. The candidate always
// counts as unavailable.
func (p *planner) missing(pool *machinePool, candidate *v1alpha1.Machine) int {
	missing := pool.desired

	for _, machine := range pool.machines {
		if machine != candidate && isAvailable(machine) && !p.evacuating[machine] {
			missing--
		}
	}

	return missing
}
