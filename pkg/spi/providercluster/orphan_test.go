package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestRowsOfSightings plays machine-controller-manager's passes, half an hour apart: it lists the machines, and has those deleted
// that it does not know.
func TestRowsOfSightings(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		// passes say whether the machine was taken for an orphan.
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
			o := newOrphanage(clock, 70*time.Minute)

			var row time.Duration

			for _, orphan := range tc.passes {
				o.listed("machines", []types.UID{"u"})
				clock.Step(time.Second)

				if orphan {
					row = o.sight("u")
				}

				clock.Step(30*time.Minute - time.Second)
			}

			require.Equal(t, tc.want, row, tc.reason)
		})
	}
}
