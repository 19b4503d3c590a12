package phases_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/phases"
)

const (
	durations = "mcm_kubevirt_machine_phase_duration_seconds"
	waiting   = "mcm_kubevirt_machines_in_phase"
	longest   = "mcm_kubevirt_machine_longest_in_phase_seconds"
)

// samples returns the samples of a metric, by phase: a gauge's value,
// or a histogram's count and sum.
func samples(t *testing.T, metric string, trackers ...*phases.Tracker) map[string]string {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	for _, tracker := range trackers {
		require.NoError(t, registry.Register(tracker))
	}

	families, err := registry.Gather()
	require.NoError(t, err)

	found := map[string]string{}

	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() != metric {
				continue
			}

			require.Len(t, m.GetLabel(), 1, "the phase is all there is")

			found[m.GetLabel()[0].GetValue()] = fmt.Sprint(m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				found[m.GetLabel()[0].GetValue()] = fmt.Sprintf("%d: %.0f s", h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}

	return found
}

func TestMachineIsCountedOnce(t *testing.T) {
	t.Parallel()

	tracker := phases.NewTracker(clocktesting.NewFakePassiveClock(time.Now()), phases.Image, phases.Scheduled)
	took := map[phases.Phase]time.Duration{phases.Image: 7 * time.Second}

	tracker.Done("a", took)
	tracker.Done("a", took)
	tracker.Done("b", took)

	require.Equal(t, map[string]string{"image": "2: 14 s", "scheduled": "0: 0 s"}, samples(t, durations, tracker))
}

func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()

	tracker := phases.NewTracker(clocktesting.NewFakePassiveClock(time.Now()), phases.Accepted)
	tracker.Done("a", map[phases.Phase]time.Duration{phases.Accepted: -time.Minute})

	require.Equal(t, map[string]string{"accepted": "1: 0 s"}, samples(t, durations, tracker))
}

func TestWaiting(t *testing.T) {
	t.Parallel()

	now := time.Now()
	clock := clocktesting.NewFakePassiveClock(now)
	tracker := phases.NewTracker(clock, phases.Accepted, phases.Image)
	both := func(metric string) map[string]string { return samples(t, metric, tracker) }

	tracker.SetWaiting("a", phases.Accepted, now.Add(-5*time.Second))
	tracker.SetWaiting("b", phases.Image, now.Add(-time.Minute))
	tracker.SetWaiting("c", phases.Image, now.Add(-2*time.Minute))
	require.Equal(t, map[string]string{"accepted": "1", "image": "2"}, both(waiting))
	require.Equal(t, map[string]string{"accepted": "5", "image": "120"}, both(longest))

	tracker.SetWaiting("a", phases.Image, now)
	tracker.Done("c", nil)
	tracker.Forget("b")
	require.Equal(t, map[string]string{"accepted": "0", "image": "1"}, both(waiting), "one machine waits for one step")
	require.Equal(t, map[string]string{"accepted": "0", "image": "0"}, both(longest))
	require.Equal(t, map[string]string{"accepted": "0: 0 s", "image": "0: 0 s"}, both(durations), "nobody knows how long they took")

	clock.SetTime(now.Add(14 * time.Minute))
	require.Equal(t, map[string]string{"accepted": "0", "image": "840"}, both(longest))

	clock.SetTime(now.Add(16 * time.Minute))
	require.Equal(t, map[string]string{"accepted": "0", "image": "0"}, both(waiting), "nobody tells of it any more")
}

// TestWaitingIsBounded reports more machines than a provider cluster has, and verifies that tracked
// machines are still updated.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()

	now := time.Now()
	tracker := phases.NewTracker(clocktesting.NewFakePassiveClock(now), phases.Image, phases.Scheduled)

	for i := range 20_000 {
		tracker.SetWaiting(types.UID(fmt.Sprint(i)), phases.Image, now)
	}

	tracker.SetWaiting("0", phases.Scheduled, now)
	require.Equal(t, map[string]string{"image": "9999", "scheduled": "1"}, samples(t, waiting, tracker))
}

// TestTrackersShareARegistry registers the trackers of a sidecar: the plugin's,
// and its own for the last phase.
func TestTrackersShareARegistry(t *testing.T) {
	t.Parallel()

	c := clocktesting.NewFakePassiveClock(time.Now())
	first, last := phases.NewTracker(c, phases.Running), phases.NewTracker(c, phases.Joined)
	last.Done("a", map[phases.Phase]time.Duration{phases.Joined: 40 * time.Second})

	require.Equal(t, map[string]string{"running": "0: 0 s", "joined": "1: 40 s"}, samples(t, durations, first, last))
}
