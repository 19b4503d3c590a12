// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// since sets the phase and the age of a Machine.
func since(ago time.Duration, phase v1alpha1.MachinePhase) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.CreationTimestamp = metav1.NewTime(start.Add(-ago))
		m.Status.CurrentStatus.Phase = phase
	}
}

// updating puts a Machine into a step of an update in place that began the given time ago.
func updating(ago time.Duration, phase v1alpha1.MachinePhase) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.CurrentStatus = v1alpha1.CurrentStatus{Phase: phase, LastUpdateTime: metav1.NewTime(start.Add(-ago))}
	}
}

func selected(ago time.Duration) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Status.Conditions = []corev1.NodeCondition{
			{Type: v1alpha1.NodeInPlaceUpdate, Reason: v1alpha1.SelectedForUpdate, LastTransitionTime: metav1.NewTime(start.Add(-ago))},
		}
	}
}

func TestPlan_Deadline(t *testing.T) {
	t.Parallel()

	const minute = time.Minute

	tests := map[string]struct {
		reason string
		in     situation
		want   []string
	}{
		"LongQueue": {
			reason: "the last replacement is young",
			in:     running(3).with("c", since(59*minute, v1alpha1.MachinePending)).evacuate("a", 2*time.Hour),
			want:   []string{"a Wait 1 of 2 other Machines"},
		},
		"QueueStalled": {
			reason: "the last replacement does not become Running",
			in:     running(3).with("c", since(61*minute, v1alpha1.MachinePending)).evacuate("a", 2*time.Hour),
			want:   []string{"a Replace waited longer than 1h"},
		},
		"RecentReplacement": {
			reason: "the deadline restarts with the last replacement",
			in:     running(3).with("b", since(minute, v1alpha1.MachineRunning)).with("c", inPhase(v1alpha1.MachineUnknown)).evacuate("a", 2*time.Hour),
			want:   []string{"a Wait 1 of 2 other Machines"},
		},
		"RecentDeletion": {
			reason: "a scale-down is a change too",
			in:     running(4).with("a", preserve).with("c", deleted(59*minute)).evacuate("a", 2*time.Hour),
			want:   []string{"a Wait preserved"},
		},
		"FailingPoolOverdue": {
			reason: "one deadline for each of three replicas and for a missing machine has passed",
			in:     running(3).with("c", since(minute, v1alpha1.MachinePending)).evacuate("a", 241*minute),
			want:   []string{"a Replace waited longer"},
		},
		"FailingPool": {
			reason: "they have not passed",
			in:     running(3).with("c", since(minute, v1alpha1.MachinePending)).evacuate("a", 239*minute),
			want:   []string{"a Wait 1 of 2 other Machines"},
		},
		"ScaledToZero": {
			reason: "the wait is never shorter than one deadline",
			in: func() situation {
				s := running(4).with("a", preserve).with("b", since(minute, v1alpha1.MachineRunning)).evacuate("a", 59*minute)
				s.desired = 0

				return s
			}(),
			want: []string{"a Wait preserved"},
		},
		"LongDrainTimeout": {
			reason: "its own drain timeout extends the deadline",
			in:     running(3).with("a", drainable(3*time.Hour, preserve)).evacuate("a", 209*minute),
			want:   []string{"a Wait preserved"},
		},
		"InPlace": {
			reason: "the update has just begun",
			in:     running(3).with("a", updating(59*minute, v1alpha1.MachineInPlaceUpdating)).evacuate("a", 2*time.Hour),
			want:   []string{"a Wait updated in place"},
		},
		"InPlaceSelected": {
			reason: "its drain has just begun",
			in:     running(3).with("a", selected(59*minute)).evacuate("a", 2*time.Hour, migratable),
			want:   []string{"a Wait updated in place"},
		},
		"InPlaceTooLong": {
			reason: "the admin's drain wins",
			in:     running(3).with("a", updating(61*minute, v1alpha1.MachineInPlaceUpdateFailed)).evacuate("a", 2*time.Hour),
			want:   []string{"a Replace waited longer"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireSteps(t, tc.want, plan(start, limits, tc.in.fleet(), tc.in.list, nil), tc.reason)
		})
	}
}

// TestWaitingSince shows that an alert can distinguish an advancing queue from a stalled one.
func TestWaitingSince(t *testing.T) {
	t.Parallel()

	const minute = time.Minute

	tests := map[string]struct {
		reason string
		in     situation
		want   map[string]time.Duration
	}{
		"Stalled": {
			reason: "no progress since the eviction request",
			in:     running(3).with("a", preserve).evacuate("a", 50*minute),
			want:   map[string]time.Duration{"a": 50 * minute},
		},
		"Replaced": {
			reason: "another one began to be replaced",
			in:     running(3).with("b", deleted(5*minute)).evacuate("a", 50*minute),
			want:   map[string]time.Duration{"a": 5 * minute},
		},
		"Migrating": {
			reason: "another one is live-migrated",
			in:     running(3).evacuate("a", 50*minute, migration(spi.MigrationRunning, 2*minute)).evacuate("b", 49*minute),
			want:   map[string]time.Duration{"b": 2 * minute},
		},
		"Replace":  {reason: "it does not wait", in: running(3).evacuate("a", 50*minute)},
		"Orphaned": {reason: "no Machine waits", in: running(3).evacuate("x", 50*minute)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got map[string]time.Duration

			for _, next := range plan(start, limits, tc.in.fleet(), tc.in.list, nil) {
				require.Equal(t, next.action == wait, !next.waitingSince.IsZero(), tc.reason)

				if next.action == wait {
					got = map[string]time.Duration{next.evacuation.Machine: start.Sub(next.waitingSince)}
				}
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestPlan_OneOverdueMachineAtATime shows that only one overdue machine at a time overrides
// the health of its pool, however many machines may be evacuated at once.
func TestPlan_OneOverdueMachineAtATime(t *testing.T) {
	t.Parallel()

	two := limits
	two.MaxPerDeployment = 2

	in := running(5).with("d", inPhase(v1alpha1.MachineUnknown)).with("e", inPhase(v1alpha1.MachineUnknown)).
		evacuate("a", 4*time.Hour).evacuate("b", 3*time.Hour)
	requireSteps(t, []string{"a Replace waited longer", "b Wait 1 of 4 other Machines"}, plan(start, two, in.fleet(), in.list, nil), "one at a time")
}
