package phases

import (
	"github.com/prometheus/client_golang/prometheus"
)

// phaseMetrics holds the metrics of one phase. The phase is part of their identity, so that several
// trackers share their names.
type phaseMetrics struct {
	duration         prometheus.Histogram
	waiting, longest *prometheus.Desc
}

func newPhaseMetrics(phase Phase) *phaseMetrics {
	label := prometheus.Labels{"phase": string(phase)}

	return &phaseMetrics{
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

func (m *phaseMetrics) describe(descriptions chan<- *prometheus.Desc) {
	m.duration.Describe(descriptions)

	descriptions <- m.waiting

	descriptions <- m.longest
}

func (m *phaseMetrics) collect(now standing, samples chan<- prometheus.Metric) {
	m.duration.Collect(samples)

	samples <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(now.count))

	samples <- prometheus.MustNewConstMetric(m.longest, prometheus.GaugeValue, now.longest.Seconds())
}
