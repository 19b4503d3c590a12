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
		m.CreationTimestamp, m.Status.CurrentStatus.Phase = metav1.NewTime(start.Add(-ago)), phase
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

func TestPatience(t *testing.T) {
	t.Parallel()

	const minute = time.Minute

	tests := map[string]struct {
		reason string
		in     situation
		want   []string
	}{
		"LongQueue": {
			reason: "the successor of the last one is young", in: running(3).with("c", since(59*minute, v1alpha1.MachinePending)).leave("a", 2*time.Hour),
			want: []string{"a Wait 1 of 2 others"},
		},
		"QueueStands": {
			reason: "the successor of the last one does not come", in: running(3).with("c", since(61*minute, v1alpha1.MachinePending)).leave("a", 2*time.Hour),
			want: []string{"a Replace waited longer than 1h"},
		},
		"LastIsYoung": {
			reason: "what runs has had no deadline yet",
			in:     running(3).with("b", since(minute, v1alpha1.MachineRunning)).with("c", inPhase(v1alpha1.MachineUnknown)).leave("a", 2*time.Hour),
			want:   []string{"a Wait 1 of 2 others"},
		},
		"DeletedLately": {
			reason: "a scale-down is a change too", in: running(4).with("a", preserve).with("c", deleted(59*minute)).leave("a", 2*time.Hour),
			want: []string{"a Wait preserved"},
		},
		"FailsForEver": {
			reason: "three machines and a missing one have had their deadlines", in: running(3).with("c", since(minute, v1alpha1.MachinePending)).leave("a", 241*minute),
			want: []string{"a Replace waited longer"},
		},
		"FailsYet": {
			reason: "they have not", in: running(3).with("c", since(minute, v1alpha1.MachinePending)).leave("a", 239*minute),
			want: []string{"a Wait 1 of 2 others"},
		},
		"TooManyMachines": {
			reason: "patience never is less than a deadline", in: func() situation {
				s := running(4).with("a", preserve).with("b", since(minute, v1alpha1.MachineRunning)).leave("a", 59*minute)
				s.desired = 0

				return s
			}(),
			want: []string{"a Wait preserved"},
		},
		"PatientMachine": {
			reason: "its own drain may take long", in: running(3).with("a", drainable(3*time.Hour, preserve)).leave("a", 209*minute),
			want: []string{"a Wait preserved"},
		},
		"InPlace": {
			reason: "the update has only begun", in: running(3).with("a", updating(59*minute, v1alpha1.MachineInPlaceUpdating)).leave("a", 2*time.Hour),
			want: []string{"a Wait updated in place"},
		},
		"InPlaceSelected": {
			reason: "its drain has only begun", in: running(3).with("a", selected(59*minute)).leave("a", 2*time.Hour, migratable),
			want: []string{"a Wait updated in place"},
		},
		"InPlaceTooLong": {
			reason: "the admin's drain wins", in: running(3).with("a", updating(61*minute, v1alpha1.MachineInPlaceUpdateFailed)).leave("a", 2*time.Hour),
			want: []string{"a Replace waited longer"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireSteps(t, tc.want, plan(start, limits, tc.in.fleet(), tc.in.list), tc.reason)
		})
	}
}

// TestWaitsAreCountedFromTheLastMove shows that an alert can distinguish a
// queue that advances from one that is stuck.
func TestWaitsAreCountedFromTheLastMove(t *testing.T) {
	t.Parallel()

	const minute = time.Minute

	tests := map[string]struct {
		reason string
		in     situation
		want   map[string]time.Duration
	}{
		"Stands": {
			reason: "nothing has moved since it was to leave", in: running(3).with("a", preserve).leave("a", 50*minute),
			want: map[string]time.Duration{"a": 50 * minute},
		},
		"Replaced": {
			reason: "another one was drained meanwhile", in: running(3).with("b", deleted(5*minute)).leave("a", 50*minute),
			want: map[string]time.Duration{"a": 5 * minute},
		},
		"Migrates": {
			reason: "another one is live-migrated", in: running(3).leave("a", 50*minute, migration(spi.MigrationRunning, 2*minute)).leave("b", 49*minute),
			want: map[string]time.Duration{"b": 2 * minute},
		},
		"Leaves":   {reason: "its turn has come", in: running(3).leave("a", 50*minute)},
		"Orphaned": {reason: "nobody waits", in: running(3).leave("x", 50*minute)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got map[string]time.Duration

			for _, next := range plan(start, limits, tc.in.fleet(), tc.in.list) {
				require.Equal(t, next.do == await, !next.waits.IsZero(), tc.reason)

				if next.do == await {
					got = map[string]time.Duration{next.evacuation.Machine: start.Sub(next.waits)}
				}
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestIllPoolIsLeftOneByOne shows that an overdue machine overrides the health of a pool only
// alone, however many machines may be evacuated at once.
func TestIllPoolIsLeftOneByOne(t *testing.T) {
	t.Parallel()

	two := limits
	two.MaxPerDeployment = 2

	in := running(5).with("d", inPhase(v1alpha1.MachineUnknown)).with("e", inPhase(v1alpha1.MachineUnknown)).
		leave("a", 4*time.Hour).leave("b", 3*time.Hour)
	requireSteps(t, []string{"a Replace waited longer", "b Wait 1 of 4 others"}, plan(start, two, in.fleet(), in.list), "one at a time")
}
