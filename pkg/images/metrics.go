// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// imagesMetric counts the images by their last observed state.
var imagesMetric = prometheus.NewDesc("mcm_kubevirt_golden_images",
	"Golden images that this process knows, by their last observed state: importing, ready or failed.", []string{"state"}, nil)

// metrics are updated by events.
type metrics struct {
	duration prometheus.Histogram
	clones   prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mcm_kubevirt_golden_image_import_duration_seconds",
			Help: "Duration of the imports of golden images whose beginning and end this process observed.",
			// From two seconds to more than two hours.
			Buckets: prometheus.ExponentialBuckets(2, 2, 13),
		}),
		clones: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mcm_kubevirt_golden_image_clones_total",
			Help: "Machines created with a root volume cloned from a golden image.",
		}),
	}
}

// imported observes the duration of an import that has ended.
func (m *metrics) imported(image *cdiv1beta1.DataVolume, now time.Time) {
	for i := range image.Status.Conditions {
		if c := &image.Status.Conditions[i]; c.Type == cdiv1beta1.DataVolumeReady && c.Status == corev1.ConditionTrue {
			now = c.LastTransitionTime.Time
		}
	}

	m.duration.Observe(now.Sub(image.CreationTimestamp.Time).Seconds())
}

var _ prometheus.Collector = (*Manager)(nil)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- imagesMetric

	m.metrics.duration.Describe(descriptions)
	m.metrics.clones.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(samples chan<- prometheus.Metric) {
	for state, count := range m.states.count() {
		samples <- prometheus.MustNewConstMetric(imagesMetric, prometheus.GaugeValue, float64(count), string(state))
	}

	m.metrics.duration.Collect(samples)
	m.metrics.clones.Collect(samples)
}
