// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

const (
	durations = "mcm_kubevirt_machine_phase_duration_seconds"
	waiting   = "mcm_kubevirt_machines_in_phase"
	longest   = "mcm_kubevirt_machine_longest_in_phase_seconds"
)

// measurement has records without other fields.
type measurement = records.Phases[records.Progress]

func newPhases(c clock.PassiveClock, list ...records.Phase) *measurement {
	store := records.NewStore[records.Progress](c, records.Retention)

	return records.NewPhases(store, func(p *records.Progress) *records.Progress { return p }, list...)
}

// samples returns the samples of a metric, by phase: a gauge's value,
// or a histogram's count and sum.
func samples(t *testing.T, metric string, all ...*measurement) map[string]string {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	for _, p := range all {
		require.NoError(t, registry.Register(p))
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

func TestPhases_DoneOnce(t *testing.T) {
	t.Parallel()

	p := newPhases(clocktesting.NewFakePassiveClock(time.Now()), records.Image, records.Scheduled)
	took := map[records.Phase]time.Duration{records.Image: 7 * time.Second}

	p.Done("a", took)
	p.Done("a", took)
	p.Done("b", took)

	require.Equal(t, map[string]string{"image": "2: 14 s", "scheduled": "0: 0 s"}, samples(t, durations, p))
}

func TestPhases_DoneWithOtherClock(t *testing.T) {
	t.Parallel()

	p := newPhases(clocktesting.NewFakePassiveClock(time.Now()), records.Accepted)
	p.Done("a", map[records.Phase]time.Duration{records.Accepted: -time.Minute})

	require.Equal(t, map[string]string{"accepted": "1: 0 s"}, samples(t, durations, p))
}

func TestPhases_SetWaiting(t *testing.T) {
	t.Parallel()

	now := time.Now()
	fake := clocktesting.NewFakePassiveClock(now)
	p := newPhases(fake, records.Accepted, records.Image)
	both := func(metric string) map[string]string { return samples(t, metric, p) }

	p.SetWaiting("a", records.Accepted, now.Add(-5*time.Second))
	p.SetWaiting("b", records.Image, now.Add(-time.Minute))
	p.SetWaiting("c", records.Image, now.Add(-2*time.Minute))
	require.Equal(t, map[string]string{"accepted": "1", "image": "2"}, both(waiting))
	require.Equal(t, map[string]string{"accepted": "5", "image": "120"}, both(longest))

	p.SetWaiting("a", records.Image, now)
	p.Done("c", nil)
	p.Forget("b")
	require.Equal(t, map[string]string{"accepted": "0", "image": "1"}, both(waiting), "one machine waits for one step")
	require.Equal(t, map[string]string{"accepted": "0", "image": "0"}, both(longest))
	require.Equal(t, map[string]string{"accepted": "0: 0 s", "image": "0: 0 s"}, both(durations), "nobody knows how long they took")

	fake.SetTime(now.Add(24 * time.Minute))
	require.Equal(t, map[string]string{"accepted": "0", "image": "1440"}, both(longest))

	fake.SetTime(now.Add(26 * time.Minute))
	require.Equal(t, map[string]string{"accepted": "0", "image": "0"}, both(waiting), "nobody tells of it any more")
}

// TestPhases_ShareARegistry registers the measurements of a sidecar: the plugin's,
// and its own for the last phase.
func TestPhases_ShareARegistry(t *testing.T) {
	t.Parallel()

	c := clocktesting.NewFakePassiveClock(time.Now())
	first := newPhases(c, records.Running)
	last := newPhases(c, records.Joined)
	last.Done("a", map[records.Phase]time.Duration{records.Joined: 40 * time.Second})

	require.Equal(t, map[string]string{"running": "0: 0 s", "joined": "1: 40 s"}, samples(t, durations, first, last))
}
