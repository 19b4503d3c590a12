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
			Help:        "How long machines took for each step between the Machine and its ready Node, counted once per machine.",
			ConstLabels: label,
			// Creation timeouts are 20 minutes by default. Most measurements are in whole seconds.
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600},
		}),
		waiting: prometheus.NewDesc("mcm_kubevirt_machines_in_phase",
			"Machines that are between the Machine and its ready Node now, by the step that they wait for.", nil, label),
		longest: prometheus.NewDesc("mcm_kubevirt_machine_longest_in_phase_seconds",
			"For how long the machine that waits the longest for a step has waited for it; 0 if none does.", nil, label),
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
