// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// The start time and the limits of these tests.
var (
	start  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	limits = Limits{MaxPerDeployment: 1, Deadline: time.Hour, MigrationTimeout: 10 * time.Minute}
)

// situation is a MachineDeployment with one MachineSet, and the evacuations of its Machines.
type situation struct {
	desired    int32
	frozen     bool
	withoutSet bool
	machines   []v1alpha1.Machine
	list       []spi.Evacuation
}

// running returns n running Machines: a, b, c, …
func running(n int32) situation {
	s := situation{desired: n}
	for i := range n {
		s.machines = append(s.machines, machineNamed(string('a'+i), v1alpha1.MachineRunning))
	}

	return s
}

func machineNamed(name string, phase v1alpha1.MachinePhase) v1alpha1.Machine {
	return v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1alpha1.MachineStatus{CurrentStatus: v1alpha1.CurrentStatus{Phase: phase}},
	}
}

// evacuate adds an evacuation that was requested the given time ago.
func (s situation) evacuate(name string, ago time.Duration, changes ...func(*spi.Evacuation)) situation {
	e := spi.Evacuation{Machine: name, RequestedAt: start.Add(-ago)}
	for _, change := range changes {
		change(&e)
	}

	s.list = append(s.list, e)

	return s
}

// with changes the named Machine.
func (s situation) with(name string, change func(*v1alpha1.Machine)) situation {
	for i := range s.machines {
		if s.machines[i].Name == name {
			change(&s.machines[i])
		}
	}

	return s
}

func migratable(e *spi.Evacuation) { e.Migratable = true }

func notMigratable(e *spi.Evacuation) { e.NotMigratableReason = "PVC is not shared" }

func migration(how spi.Migration, ago time.Duration) func(*spi.Evacuation) {
	return func(e *spi.Evacuation) { e.Migratable, e.Migration, e.MigrationSince = true, how, start.Add(-ago) }
}

func inPhase(phase v1alpha1.MachinePhase) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Status.CurrentStatus.Phase = phase }
}

func deleted(ago time.Duration) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(start.Add(-ago))) }
}

// drainable gives a Machine its own drain timeout, and applies another change.
func drainable(timeout time.Duration, change func(*v1alpha1.Machine)) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Spec.MachineConfiguration = &v1alpha1.MachineConfiguration{MachineDrainTimeout: &metav1.Duration{Duration: timeout}}
		change(m)
	}
}

func preserve(m *v1alpha1.Machine) {
	m.Status.CurrentStatus.PreserveExpiryTime = ptr.To(metav1.NewTime(start.Add(time.Hour)))
}

func (s situation) fleet() *fleet {
	set := v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", UID: "set", OwnerReferences: []metav1.OwnerReference{
			{Kind: "MachineDeployment", Name: "pool", UID: "deployment", Controller: ptr.To(true)},
		}},
		Spec: v1alpha1.MachineSetSpec{Replicas: s.desired},
	}
	if s.frozen {
		set.Status.Conditions = []v1alpha1.MachineSetCondition{{Type: v1alpha1.MachineSetFrozen, Status: v1alpha1.ConditionTrue}}
	}

	if !s.withoutSet {
		for i := range s.machines {
			s.machines[i].OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", UID: "set", Controller: ptr.To(true)}}
		}
	}

	return newFleet(s.machines, []v1alpha1.MachineSet{set})
}

func TestPlan(t *testing.T) {
	t.Parallel()

	const minute = time.Minute

	tests := map[string]struct {
		reason string
		in     situation
		want   []string // machine, action and a part of the reason
	}{
		"Replace": {
			reason: "a healthy pool can spare one", in: running(3).evacuate("a", minute),
			want: []string{"a Replace cannot be live-migrated"},
		},
		"NotMigratableReason": {
			reason: "KubeVirt's own message", in: running(1).evacuate("a", minute, notMigratable),
			want: []string{"a Replace PVC is not shared"},
		},
		"Migrate": {
			reason: "the shoot does not notice", in: running(3).evacuate("a", minute, migratable),
			want: []string{"a Migrate"},
		},
		"OldestFirst": {
			reason: "one at a time, in the order of the drains", in: running(3).evacuate("a", minute).evacuate("b", 2*minute).evacuate("c", minute, migratable),
			want: []string{"b Replace", "a Wait MachineDeployment pool already has 1 Machine(s) being deleted or migrated", "c Wait"},
		},
		"NoTimeYet": {
			reason: "virt-controller has not reported it yet", in: running(2).evacuate("a", minute, func(e *spi.Evacuation) { e.RequestedAt = time.Time{} }).evacuate("b", minute),
			want: []string{"b Replace", "a Wait"},
		},
		"Orphan": {
			reason: "there is nothing to replace", in: running(1).evacuate("x", minute), want: []string{"x Skip no Machine"},
		},
		"BeingDeleted": {
			reason: "it counts towards the limit", in: running(3).with("a", deleted(minute)).evacuate("a", minute).evacuate("b", minute),
			want: []string{"a Replacing", "b Wait being deleted"},
		},
		"DeletedForAnotherReason": {
			reason: "a scale-down counts too", in: running(3).with("c", deleted(minute)).evacuate("a", minute), want: []string{"a Wait being deleted"},
		},
		"Missing": {
			reason: "the replacement is not Running yet",
			in: func() situation {
				s := running(3)
				s.machines[2].Status.CurrentStatus.Phase = v1alpha1.MachinePending

				return s.evacuate("a", minute)
			}(),
			want: []string{"a Wait 1 of 2 other Machines of MachineDeployment pool are Running"},
		},
		"NotCreatedYet": {
			reason: "the MachineSet has not created it yet", in: func() situation {
				s := running(2).evacuate("a", minute)
				s.desired = 3

				return s
			}(),
			want: []string{"a Wait 1 of 2 other Machines"},
		},
		"CandidateUnhealthy": {
			reason: "the pool loses no capacity", in: running(2).with("a", inPhase(v1alpha1.MachineUnknown)).evacuate("a", minute), want: []string{"a Replace"},
		},
		"WithoutTargetCluster": {
			reason: "machines are Available there", in: running(2).with("a", inPhase(v1alpha1.MachineAvailable)).with("b", inPhase(v1alpha1.MachineAvailable)).evacuate("a", minute),
			want: []string{"a Replace"},
		},
		"Surge": {
			reason: "more than enough run", in: func() situation {
				s := running(3).with("c", inPhase(v1alpha1.MachinePending)).evacuate("a", minute)
				s.desired = 2

				return s
			}(),
			want: []string{"a Replace"},
		},
		"Migrating": {
			reason: "it counts towards the limit", in: running(3).evacuate("a", minute, migration(spi.MigrationRunning, 20*minute)).evacuate("b", 2*minute),
			want: []string{"b Wait being deleted", "a Migrating Running"},
		},
		"MigrationPending": {
			reason: "it may still begin", in: running(3).evacuate("a", minute, migration(spi.MigrationPending, 9*minute)), want: []string{"a Migrating Pending"},
		},
		"MigrationStalled": {
			reason: "the queue is stalled", in: running(3).evacuate("a", minute, migration(spi.MigrationPending, 11*minute)),
			want: []string{"a Replace no live migration from its node has advanced for 10m"},
		},
		"MigrationEndless": {
			reason: "virt-handler may be dead", in: running(3).evacuate("a", 2*time.Hour, migration(spi.MigrationRunning, 61*minute)),
			want: []string{"a Replace its live migration has not ended for 1h"},
		},
		"MigrationFailed": {
			reason: "another would fail too", in: running(3).evacuate("a", minute, migration(spi.MigrationFailed, minute)),
			want: []string{"a Replace has failed"},
		},
		"CancelMigration": {
			reason: "it would only delay the deletion",
			in:     running(3).with("a", deleted(minute)).evacuate("a", minute, migration(spi.MigrationPending, 11*minute)),
			want:   []string{"a CancelMigration"},
		},
		"Frozen": {
			reason: "it would not be replaced", in: func() situation {
				s := running(3).evacuate("a", minute)
				s.frozen = true

				return s
			}(),
			want: []string{"a Wait frozen"},
		},
		"WithoutMachineSet": {
			reason: "it would not be replaced", in: func() situation {
				s := running(1).evacuate("a", minute)
				s.withoutSet = true

				return s
			}(),
			want: []string{"a Wait no MachineSet"},
		},
		"Preserved": {
			reason: "it is kept for debugging", in: running(3).with("a", preserve).evacuate("a", minute).evacuate("b", 0),
			want: []string{"a Wait preserved", "b Replace"},
		},
		"PreservedAndMigratable": {
			reason: "a migration preserves it too", in: running(3).with("a", preserve).evacuate("a", minute, migratable), want: []string{"a Migrate"},
		},
		"InPlace": {
			reason: "a migration would disturb it", in: running(3).with("a", inPhase(v1alpha1.MachineInPlaceUpdating)).evacuate("a", minute, migratable),
			want: []string{"a Wait updated in place"},
		},
		"OverdueInUnhealthyPool": {
			reason: "the admin's drain wins", in: running(3).with("b", inPhase(v1alpha1.MachineUnknown)).evacuate("a", 61*minute),
			want: []string{"a Replace waited longer than 1h"},
		},
		"OverdueAndPreserved": {
			reason: "the admin's drain wins", in: running(3).with("a", preserve).evacuate("a", 61*minute), want: []string{"a Replace waited longer"},
		},
		"OverdueAndNotMigratable": {
			reason: "KubeVirt's own message is at the end", in: running(3).with("a", preserve).evacuate("a", 61*minute, notMigratable),
			want: []string{"a Replace it has waited longer than 1h0m0s, and it cannot be live-migrated: PVC is not shared"},
		},
		"OverdueAndMigratable": {
			reason: "the deadline is named", in: running(3).with("b", inPhase(v1alpha1.MachineUnknown)).evacuate("a", 61*minute, migratable),
			want: []string{"a Migrate it has waited longer than 1h0m0s"},
		},
		"OverdueAtLimit": {
			reason: "a long queue still advances one by one", in: running(3).with("b", deleted(minute)).evacuate("a", 61*minute).evacuate("c", 61*minute),
			want: []string{"a Wait being deleted", "c Wait"},
		},
		"OverdueBehindStuckDeletion": {
			reason: "a stuck deletion does not block others forever", in: running(3).with("b", deleted(2*time.Hour)).evacuate("a", 61*minute).evacuate("c", 61*minute),
			want: []string{"a Replace", "c Wait being deleted"},
		},
		"DeletedLongBefore": {
			reason: "the evacuation has just begun", in: running(3).with("a", deleted(2*time.Hour)).evacuate("a", minute), want: []string{"a Replacing"},
		},
		"OwnDrainTimeout": {
			reason: "its pods have the Machine's own drain timeout", in: running(3).with("a", drainable(3*time.Hour, deleted(3*time.Hour))).evacuate("a", 4*time.Hour),
			want: []string{"a Replacing"},
		},
		"OwnDrainTimeoutExceeded": {
			reason: "the admin's drain wins", in: running(3).with("a", drainable(3*time.Hour, deleted(211*minute))).evacuate("a", 4*time.Hour),
			want: []string{"a PowerOff longer than 3h30m"},
		},
		"ShortDrainTimeout": {
			reason: "a short drain timeout does not shorten the deadline", in: running(3).with("a", drainable(minute, deleted(59*minute))).evacuate("a", 4*time.Hour),
			want: []string{"a Replacing"},
		},
		"OverdueBehindLongDrain": {
			reason: "the deletion is not stuck", in: running(3).with("b", drainable(3*time.Hour, deleted(2*time.Hour))).evacuate("a", 4*time.Hour),
			want: []string{"a Wait being deleted"},
		},
		"DeletionTooLong": {
			reason: "the admin's drain wins", in: running(3).with("a", deleted(61*minute)).evacuate("a", 2*time.Hour), want: []string{"a PowerOff longer than 1h"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireSteps(t, tc.want, plan(start, limits, tc.in.fleet(), tc.in.list, nil), tc.reason)
		})
	}
}

func requireSteps(t *testing.T, want []string, steps []step, reason string) {
	t.Helper()
	require.Len(t, steps, len(want), reason)

	for i, s := range steps {
		words := strings.SplitN(want[i], " ", 3)
		require.Equal(t, words[0], s.evacuation.Machine, reason)
		require.Equal(t, words[1], string(s.action), "%s: %s", reason, s.reason)

		if len(words) > 2 {
			require.Contains(t, s.reason, words[2], reason)
		}
	}
}

func TestPlan_MaxPerDeployment(t *testing.T) {
	t.Parallel()

	two := limits
	two.MaxPerDeployment = 2

	in := running(4).evacuate("a", 4).evacuate("b", 3).evacuate("c", 2)
	requireSteps(t, []string{"a Replace", "b Replace", "c Wait already has 2 Machine(s)"}, plan(start, two, in.fleet(), in.list, nil), "two at a time")

	in = running(4).with("d", inPhase(v1alpha1.MachineUnknown)).evacuate("a", 4).evacuate("b", 3)
	requireSteps(t, []string{"a Replace", "b Wait 1 of 3 other Machines"}, plan(start, two, in.fleet(), in.list, nil), "one is missing already")
}

// TestPlan_IndependentPools shows that MachineSets of one MachineDeployment
// form one pool, and other MachineSets do not.
func TestPlan_IndependentPools(t *testing.T) {
	t.Parallel()

	setOf := func(uid types.UID, deployment string) v1alpha1.MachineSet {
		return v1alpha1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid, OwnerReferences: []metav1.OwnerReference{
				{Kind: "MachineDeployment", Name: deployment, UID: types.UID(deployment), Controller: ptr.To(true)},
			}},
			Spec: v1alpha1.MachineSetSpec{Replicas: 1},
		}
	}
	machineOf := func(name string, set types.UID) v1alpha1.Machine {
		m := machineNamed(name, v1alpha1.MachineRunning)
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: string(set), UID: set, Controller: ptr.To(true)}}

		return m
	}

	fleet := newFleet(
		[]v1alpha1.Machine{machineOf("a", "old"), machineOf("b", "new"), machineOf("c", "other")},
		[]v1alpha1.MachineSet{setOf("old", "x"), setOf("new", "x"), setOf("other", "y")},
	)
	steps := plan(start, limits, fleet, []spi.Evacuation{{Machine: "a"}, {Machine: "b"}, {Machine: "c"}}, nil)
	requireSteps(t, []string{"a Replace", "b Wait MachineDeployment x", "c Replace"}, steps, "one machine of each pool")
}
