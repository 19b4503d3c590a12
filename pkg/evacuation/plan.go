package evacuation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Limits bound the speed of evacuations.
type Limits struct {
	// MaxPerDeployment is how many Machines of a MachineDeployment may be
	// evacuated at once, and how many may be missing.
	MaxPerDeployment int
	// Deadline bounds waiting: a machine that has waited this long no longer waits for the health
	// of its MachineDeployment, nor for an operation that holds it; a migration that has been
	// running or pending this long counts as failed; and a machine that
	// machine-controller-manager has been deleting this long is powered off. A Machine with a
	// longer drain timeout of its own has a later deadline.
	Deadline time.Duration
	// MigrationTimeout is how long a migration may wait while neither it nor another migration from
	// the same node advances. KubeVirt runs a few migrations at a time, by default two per node and
	// five per cluster, and queues the others.
	MigrationTimeout time.Duration
}

// action is the next action for an evacuation.
type action string

const (
	passOver     action = "PassOver"     // An orphan: machine-controller-manager deletes it itself.
	await        action = "Wait"         // The evacuation is blocked for now.
	migrate      action = "Migrate"      // Start a live migration.
	moving       action = "Moving"       // A live migration is in progress.
	replace      action = "Replace"      // Delete the Machine: its node is drained and replaced.
	leaving      action = "Leaving"      // The Machine is being deleted.
	endMigration action = "EndMigration" // The Machine is being deleted: end its migration.
	powerOff     action = "PowerOff"     // The deletion has taken too long.
)

// step is an evacuation and its next action.
type step struct {
	evacuation *spi.Evacuation
	machine    *v1alpha1.Machine // nil if there is none
	do         action
	why        string // for people; empty if there is nothing to report
	// waits is since when a waiting machine has waited without
	// progress in its pool; zero if it does not wait.
	waits time.Time
}

// planner decides on a snapshot of both clusters, and keeps no state.
type planner struct {
	now    time.Time
	limits Limits
	fleet  *fleet
	// away are the Machines that this plan migrates or deletes, or that are already migrating.
	away map[*v1alpha1.Machine]bool
	// migrated is when the last of a pool's ongoing migrations was created or advanced.
	migrated map[*pool]time.Time
}

// plan returns a step for every evacuation, the oldest first.
func plan(now time.Time, limits Limits, fleet *fleet, list []spi.Evacuation) []step {
	p := &planner{now: now, limits: limits, fleet: fleet, away: map[*v1alpha1.Machine]bool{}, migrated: map[*pool]time.Time{}}

	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b spi.Evacuation) int {
		return cmp.Or(p.since(&a).Compare(p.since(&b)), cmp.Compare(a.Machine, b.Machine))
	})

	for i := range list {
		if machine := fleet.machines[list[i].Machine]; machine != nil && p.migrating(&list[i]) {
			p.away[machine] = true
			in := fleet.pools[machine.Name]
			p.migrated[in] = later(p.migrated[in], lastMove(&list[i]))
		}
	}

	steps := make([]step, 0, len(list))
	for i := range list {
		steps = append(steps, p.step(&list[i]))
	}

	return steps
}

// since returns when an evacuation was requested. An evacuation without a time is new.
func (p *planner) since(e *spi.Evacuation) time.Time {
	if e.Since.IsZero() {
		return p.now
	}

	return e.Since
}

func (p *planner) step(e *spi.Evacuation) step {
	s := step{evacuation: e, machine: p.fleet.machines[e.Machine]}

	switch {
	case s.machine == nil:
		s.do, s.why = passOver, "no Machine is known for it"
	case s.machine.DeletionTimestamp != nil:
		s.do, s.why = p.deleting(e, s.machine)
	case p.migrating(e):
		s.do, s.why = moving, "a live migration is "+string(e.Migration)
	default:
		s.do, s.why = p.begin(e, s.machine)
	}

	if s.do == await {
		s.waits = p.waitsSince(e, p.fleet.pools[e.Machine])
	}

	return s
}

// deleting returns the action for a Machine that
// machine-controller-manager deletes, for whatever reason.
func (p *planner) deleting(e *spi.Evacuation, machine *v1alpha1.Machine) (action, string) {
	deadline := p.deadlineOf(machine)

	switch {
	case p.takesTooLong(e, machine.DeletionTimestamp.Time, deadline):
		return powerOff, fmt.Sprintf("its deletion has taken longer than %s", deadline)
	case e.Migration == spi.MigrationPending:
		return endMigration, "its Machine is being deleted"
	default:
		return leaving, "its Machine is being deleted"
	}
}

// migrating reports whether a migration is in progress and within its time limits.
func (p *planner) migrating(e *spi.Evacuation) bool {
	switch e.Migration {
	case spi.MigrationRunning:
		return !p.takesTooLong(e, e.MigrationSince, p.limits.Deadline)
	case spi.MigrationPending:
		return !p.takesTooLong(e, e.MigrationSince, p.limits.Deadline) && !p.queueStands(e)
	default:
		return false
	}
}

// queueStands reports whether KubeVirt's queue has not advanced for the migration's timeout.
func (p *planner) queueStands(e *spi.Evacuation) bool {
	return p.now.Sub(lastMove(e)) > p.limits.MigrationTimeout
}

// lastMove returns when the migration was created, or a migration from
// the same node advanced, whichever is later.
func lastMove(e *spi.Evacuation) time.Time {
	return later(e.MigrationSince, e.MigrationProgress)
}

// takesTooLong reports whether an operation that began at the given time has exceeded a deadline.
// Time before the evacuation does not count.
func (p *planner) takesTooLong(e *spi.Evacuation, begun time.Time, deadline time.Duration) bool {
	return p.now.Sub(later(begun, p.since(e))) > deadline
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

// begin returns the action for a machine that is neither being deleted nor migrating.
func (p *planner) begin(e *spi.Evacuation, machine *v1alpha1.Machine) (action, string) {
	in := p.fleet.pools[machine.Name]
	overdue := p.overdue(e, machine, in)
	do, why := p.howToLeave(e)

	if reason := held(machine, do, p.now); reason != "" && (!overdue || !p.mayCutShort(machine)) {
		return await, reason
	}

	underway := p.underway(in, overdue)
	if underway >= p.limits.MaxPerDeployment {
		return await, fmt.Sprintf("%s has %d on their way already", in.title(), underway)
	}

	// An overdue machine leaves a pool that cannot spare it, but not together with others.
	if reason := p.unfit(in, machine, do); reason != "" && (!overdue || underway > 0) {
		return await, reason
	}

	p.away[machine] = true

	if overdue {
		why += fmt.Sprintf(", and it has waited longer than %s", p.deadlineOf(machine))
	}

	return do, why
}

// howToLeave prefers a live migration, which the shoot does not notice.
func (p *planner) howToLeave(e *spi.Evacuation) (action, string) {
	switch {
	case e.Migration == spi.MigrationFailed:
		return replace, "its live migration has failed"
	case e.Migration == spi.MigrationPending && p.queueStands(e):
		return replace, fmt.Sprintf("no live migration from its node has advanced for %s", p.limits.MigrationTimeout)
	case e.Migration == spi.MigrationPending:
		return replace, fmt.Sprintf("its live migration has not begun for %s", p.limits.Deadline)
	case e.Migration == spi.MigrationRunning:
		return replace, "its live migration does not end"
	case e.Migratable:
		return migrate, "it can be live-migrated"
	case e.Obstacle != "":
		return replace, "it cannot be live-migrated: " + e.Obstacle
	default:
		return replace, "it cannot be live-migrated"
	}
}

// underway returns how many of a pool's machines are being deleted or migrated. A deletion that has
// exceeded its deadline does not block overdue machines.
func (p *planner) underway(in *pool, overdue bool) int {
	underway := 0

	for _, machine := range in.machines {
		switch deleted := machine.DeletionTimestamp; {
		case deleted == nil && !p.away[machine]:
		case deleted != nil && overdue && p.now.Sub(deleted.Time) > p.deadlineOf(machine):
		default:
			underway++
		}
	}

	return underway
}

// unfit returns why the pool cannot spare the machine: others are missing, or no replacement would
// be created. It returns an empty string if the pool can.
func (p *planner) unfit(in *pool, candidate *v1alpha1.Machine, do action) string {
	missing := p.missing(in, candidate)

	switch {
	case do == replace && in.name == "":
		return "no MachineSet would replace its Machine"
	case do == replace && in.frozen:
		return in.title() + " is frozen, so its Machine would not be replaced"
	case missing > p.limits.MaxPerDeployment:
		return fmt.Sprintf("%s has %d of %d others Running", in.title(), in.desired-missing, in.desired-1)
	default:
		return ""
	}
}

// missing returns how many of a pool's desired machines are not available. The candidate counts as
// missing, whatever its state.
func (p *planner) missing(in *pool, candidate *v1alpha1.Machine) int {
	missing := in.desired

	for _, machine := range in.machines {
		if machine != candidate && available(machine) && !p.away[machine] {
			missing--
		}
	}

	return missing
}

func (p *pool) title() string {
	if p.name == "" {
		return "a Machine that stands alone"
	}

	return p.kind + " " + p.name
}
