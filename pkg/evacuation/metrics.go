// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// outcome is the result of an evacuation.
type outcome string

const (
	migrated   outcome = "migrated"
	replaced   outcome = "replaced"
	poweredOff outcome = "powered-off"
	cancelled  outcome = "cancelled"
)

type metrics struct {
	ended    *prometheus.CounterVec
	waiting  prometheus.Gauge
	longest  prometheus.Gauge
	duration *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mcm_kubevirt_evacuations_total",
			Help: "Evacuations of machines from provider nodes that have ended, by outcome.",
		}, []string{"outcome"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcm_kubevirt_evacuations_waiting",
			Help: "Machines that wait to be evacuated from their provider nodes.",
		}),
		longest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mcm_kubevirt_evacuation_longest_wait_seconds",
			Help: "Longest time that a machine has waited to be evacuated without any progress in its pool, in seconds.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcm_kubevirt_evacuation_duration_seconds",
			Help: "Time from the eviction request until the guest had left its provider node, in seconds, by outcome.",
			// From the duration of one live migration to that of several consecutive drains of shoot nodes.
			Buckets: []float64{30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200},
		}, []string{"outcome"}),
	}

	for _, o := range []outcome{migrated, replaced, poweredOff, cancelled} {
		m.ended.WithLabelValues(string(o))
		m.duration.WithLabelValues(string(o))
	}

	return m
}

func (m *metrics) observe(o outcome, duration time.Duration) {
	m.ended.WithLabelValues(string(o)).Inc()
	m.duration.WithLabelValues(string(o)).Observe(duration.Seconds())
}

// Describe implements prometheus.Collector.
func (c *Controller) Describe(descriptions chan<- *prometheus.Desc) {
	c.metrics.ended.Describe(descriptions)
	c.metrics.waiting.Describe(descriptions)
	c.metrics.longest.Describe(descriptions)
	c.metrics.duration.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (c *Controller) Collect(samples chan<- prometheus.Metric) {
	c.metrics.ended.Collect(samples)
	c.metrics.waiting.Collect(samples)
	c.metrics.longest.Collect(samples)
	c.metrics.duration.Collect(samples)
}
