// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Phase is one phase of a machine's creation, named after its result.
type Phase string

const (
	// Accepted begins with the Machine and ends when its VirtualMachine exists.
	Accepted Phase = "accepted"
	// Image follows Accepted and ends when the machine's disks exist, and with them its pod:
	// imports, clones and quota for pods.
	Image Phase = "image"
	// Scheduled follows Image and ends when the machine is scheduled to a provider node.
	Scheduled Phase = "scheduled"
	// Running follows Scheduled and ends when the guest runs.
	Running Phase = "running"
	// Joined begins when machine-controller-manager has learned that the machine was scheduled, and
	// ends when its Node is ready.
	Joined Phase = "joined"
)

// Phases measures the time from the creation of a Machine until its Node is ready: the duration of
// each phase, and the machines that are in it now. It is a collector, and safe for concurrent use. No
// metric label contains a name. A restart loses the counts, as with every counter; a machine that
// machine-controller-manager no longer polls is not counted again.
type Phases[R any] struct {
	store   *Store[R]
	field   func(*R) *Progress
	metrics map[Phase]phaseMetrics
}

// Progress is the field of a record with the phase of a machine.
type Progress struct {
	// waitsIn is the phase that the machine is in; empty if it is in none.
	waitsIn Phase
	since   time.Time
	// counted is set if its phases have been observed.
	counted bool
}

// NewPhases returns the measurement of some phases. field returns the field of a record in the store.
// Measurements in one registry must have different phases.
func NewPhases[R any](store *Store[R], field func(*R) *Progress, list ...Phase) *Phases[R] {
	p := &Phases[R]{store: store, field: field, metrics: map[Phase]phaseMetrics{}}
	for _, phase := range list {
		p.metrics[phase] = newPhaseMetrics(phase)
	}

	return p
}

// SetWaiting records that a machine has been in a phase since the given time. The entry expires with
// its record.
func (p *Phases[R]) SetWaiting(machine Key, in Phase, since time.Time) {
	p.store.Use(machine, func(r *R) {
		progress := p.field(r)
		progress.waitsIn = in
		progress.since = since
	})
}

// Done reports that a machine has completed its phases, with the durations that are known. Further
// calls change nothing.
func (p *Phases[R]) Done(machine Key, took map[Phase]time.Duration) {
	p.store.Use(machine, func(r *R) {
		progress := p.field(r)
		progress.waitsIn = ""

		if progress.counted {
			return
		}

		progress.counted = true

		for phase, duration := range took {
			// The two timestamps may come from different clocks.
			p.metrics[phase].duration.Observe(max(0, duration.Seconds()))
		}
	})
}

// Forget reports that a machine no longer waits, although it has not completed its phases.
func (p *Phases[R]) Forget(machine Key) {
	p.store.Peek(machine, func(r *R) { p.field(r).waitsIn = "" })
}

// standing is the number of machines in a phase, and how long the first of them has been in it.
type standing struct {
	count   int
	longest time.Duration
}

func (p *Phases[R]) standings() map[Phase]standing {
	now := p.store.clock.Now()
	all := map[Phase]standing{}

	p.store.Each(func(r *R) {
		progress := p.field(r)
		s := all[progress.waitsIn]
		all[progress.waitsIn] = standing{count: s.count + 1, longest: max(s.longest, now.Sub(progress.since))}
	})

	return all
}

var _ prometheus.Collector = (*Phases[Progress])(nil)

// Describe implements prometheus.Collector.
func (p *Phases[R]) Describe(descriptions chan<- *prometheus.Desc) {
	for _, m := range p.metrics {
		m.duration.Describe(descriptions)

		descriptions <- m.waiting

		descriptions <- m.longest
	}
}

// Collect implements prometheus.Collector.
func (p *Phases[R]) Collect(samples chan<- prometheus.Metric) {
	now := p.standings()
	for phase, m := range p.metrics {
		m.duration.Collect(samples)

		samples <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(now[phase].count))

		samples <- prometheus.MustNewConstMetric(m.longest, prometheus.GaugeValue, now[phase].longest.Seconds())
	}
}

// phaseMetrics holds the metrics of one phase. The phase is part of their identity, so that several
// measurements share their names.
type phaseMetrics struct {
	duration         prometheus.Histogram
	waiting, longest *prometheus.Desc
}

func newPhaseMetrics(phase Phase) phaseMetrics {
	label := prometheus.Labels{"phase": string(phase)}

	return phaseMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:        "mcm_kubevirt_machine_phase_duration_seconds",
			Help:        "Duration of each phase from the creation of a Machine until its Node is ready, observed once per machine.",
			ConstLabels: label,
			// Creation timeouts are 20 minutes by default. Most measurements are in whole seconds.
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600},
		}),
		waiting: prometheus.NewDesc("mcm_kubevirt_machines_in_phase",
			"Machines without a ready Node, by the phase that they are in.", nil, label),
		longest: prometheus.NewDesc("mcm_kubevirt_machine_longest_in_phase_seconds",
			"Longest time that a machine has been in its present phase; 0 if no machine is in the phase.", nil, label),
	}
}
