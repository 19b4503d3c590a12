package providercluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestObservations runs machine-controller-manager's passes, half an hour apart: it lists the
// machines, and has those deleted that it does not know.
func TestObservations(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		// passes are set if the pass reports the machine as an orphan.
		passes []bool
		want   time.Duration
	}{
		"Orphan":      {"it is one in each pass", []bool{true, true, true}, time.Hour},
		"Glitches":    {"a pass in between knew its Machine", []bool{true, false, true}, 0},
		"KnownBefore": {"its Machine is gone since", []bool{false, true, true}, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			clock := clocktesting.NewFakeClock(time.Now())
			o := newOrphanTracker(clock, 70*time.Minute)

			var row time.Duration

			for _, orphan := range tc.passes {
				o.recordList(caller.ThisProcess, "machines", []types.UID{"u"})
				clock.Step(time.Second)

				if orphan {
					row = o.recordObservation(caller.ThisProcess, "u")
				}

				clock.Step(30*time.Minute - time.Second)
			}

			require.Equal(t, tc.want, row, tc.reason)
		})
	}
}

// TestObservationsEndWithTheirCaller restarts a machine controller with an empty cache, twice,
// while the driver keeps running.
func TestObservationsEndWithTheirCaller(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	p := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: 10 * time.Minute, OrphanPeriod: 25 * time.Minute})
	c := &providerapi.Clients{Namespace: "ns"}
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}}

	asked := func(by caller.ID) error { return p.checkOrphan(caller.With(t.Context(), by), c, vm) }

	for _, process := range []caller.ID{"first", "second", "third", caller.Unknown, caller.Unknown, caller.ThisProcess} {
		require.ErrorIs(t, asked(process), spi.ErrConflict, process)
		clock.Step(12 * time.Minute)
	}

	require.NoError(t, asked("third"), "it has known for long")
	p.orphans.forget("u")
	require.ErrorIs(t, asked("second"), spi.ErrConflict, "it has a Machine")
}

// TestListsOfOthersEndNoObservations has a process list between two observations of another one:
// only the own list of a process ends its observations.
func TestListsOfOthersEndNoObservations(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	o := newOrphanTracker(clock, time.Hour)

	require.Zero(t, o.recordObservation("first", "u"))

	for _, by := range []caller.ID{"first", "second", "second", caller.Unknown, caller.Unknown} {
		clock.Step(time.Minute)
		o.recordList(by, "machines", []types.UID{"u"})
	}

	require.Equal(t, 5*time.Minute, o.recordObservation("first", "u"))
	clock.Step(time.Minute)
	o.recordList("first", "machines", []types.UID{"u"})
	clock.Step(time.Minute)
	o.recordList("first", "machines", []types.UID{"u"})
	require.Zero(t, o.recordObservation("first", "u"))
}

// TestOrphanTrackerIsBounded has more callers than are remembered. The observations and lists of
// removed callers begin again.
func TestOrphanTrackerIsBounded(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	o := newOrphanTracker(clock, time.Hour)

	const many = 6

	for i := range many {
		by := caller.ID(fmt.Sprint("process", i))

		o.recordList(by, "machines", make([]types.UID, maxRemembered/(many-1)))
		require.Zero(t, o.recordObservation(by, "u"))
		clock.Step(time.Minute)
	}

	require.NotContains(t, o.callers, caller.ID("process0"))
	require.Len(t, o.callers, many-2)
	require.Equal(t, time.Minute, o.recordObservation("process5", "u"))

	clock.Step(2 * time.Hour)
	o.recordObservation("process6", "u")
	require.Len(t, o.callers, 1, "outdated observations are removed")
}
