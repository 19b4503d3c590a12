package evacuation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Limits say how fast machines may leave.
type Limits struct {
	// MaxPerDeployment is how many Machines of a MachineDeployment may be on their way, and how many may be missing.
	MaxPerDeployment int
	// Deadline ends patience: a machine that has waited as long as this no longer waits for the health of its MachineDeployment,
	// nor for what holds it; a migration that has run, or waited to run, as long as this counts as failed; and a machine that
	// machine-controller-manager has been deleting as long as this is powered off. A Machine whose own drain may take longer than
	// that has a later one.
	Deadline time.Duration
	// MigrationTimeout is how long a migration may wait while neither it nor another migration from the same node advances. KubeVirt
	// runs a few migrations at a time, by default two per node and five per cluster, and the others wait in its queue.
	MigrationTimeout time.Duration
}

// action is what to do about an evacuation now.
type action string

const (
	passOver     action = "PassOver"     // Nobody's Machine: machine-controller-manager deletes orphans by itself.
	await        action = "Wait"         // Something is in the way, but not for ever.
	migrate      action = "Migrate"      // Begin a live migration.
	moving       action = "Moving"       // A live migration is under way.
	replace      action = "Replace"      // Delete the Machine: its node is drained, and another one made.
	leaving      action = "Leaving"      // The Machine is being deleted.
	endMigration action = "EndMigration" // The Machine is being deleted: its migration must not begin.
	powerOff     action = "PowerOff"     // The deletion has taken too long.
)

// step is an evacuation, and what to do about it.
type step struct {
	evacuation *spi.Evacuation
	machine    *v1alpha1.Machine // nil if there is none
	do         action
	why        string // for people; empty if there is nothing to say
	// waits is since when a machine that waits has waited while nothing moved in its pool; zero if it does not wait.
	waits time.Time
}

// planner decides, from what is seen at one moment, and keeps nothing.
type planner struct {
	now    time.Time
	limits Limits
	fleet  *fleet
	// away are the Machines that are on their way: deleted, or migrating.
	away map[*v1alpha1.Machine]bool
	// migrated is when the last of the migrations that are under way in a pool was created or advanced.
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

// since returns when an evacuation was asked for. What has no time yet is new.
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

// deleting is what to do about a Machine that machine-controller-manager deletes, whoever asked for that.
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

// migrating says whether a migration is under way and within its time limits.
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

// queueStands says whether KubeVirt's queue has not moved for the migration's timeout.
func (p *planner) queueStands(e *spi.Evacuation) bool {
	return p.now.Sub(lastMove(e)) > p.limits.MigrationTimeout
}

// lastMove returns when the migration was created, or a migration from the same node advanced, whichever is later.
func lastMove(e *spi.Evacuation) time.Time {
	return later(e.MigrationSince, e.MigrationProgress)
}

// takesTooLong says whether what has begun then has used up a deadline. What was there before the evacuation has time from then.
func (p *planner) takesTooLong(e *spi.Evacuation, begun time.Time, deadline time.Duration) bool {
	return p.now.Sub(later(begun, p.since(e))) > deadline
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

// begin is what to do about a machine that nothing has been done about.
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

	// Whoever is overdue leaves a pool that cannot spare it, but not together with others.
	if reason := p.unfit(in, machine, do); reason != "" && (!overdue || underway > 0) {
		return await, reason
	}

	p.away[machine] = true

	if overdue {
		why += fmt.Sprintf(", and it has waited longer than %s", p.deadlineOf(machine))
	}

	return do, why
}

// howToLeave prefers what the shoot does not notice.
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

// underway is how many of a pool's machines are on their way. A deletion that has hung for longer than its deadline does not hold up
// machines that are overdue.
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

// unfit says whether the pool cannot spare the machine: others are missing, or nothing would come in its place.
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

// missing is how many of a pool's machines do not carry their share, without the candidate, which takes a place among them whatever
// its state.
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
