// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"github.com/prometheus/client_golang/prometheus"
)

// expiryMetric reports when credentials expire. It is read from the kubeconfig, not from the
// server: an alert has to fire before the server refuses the credentials.
var expiryMetric = prometheus.NewDesc("mcm_kubevirt_credentials_expiry_timestamp_seconds",
	"Expiry of the credentials in the kubeconfig of a provider cluster, in seconds since 1970; absent for credentials that do not expire.",
	[]string{"server", "namespace", "type"}, nil)

// lifetimeMetric reports the total lifetime of credentials, so that alerts can distinguish
// credentials that are renewed every hour from those valid for a year.
var lifetimeMetric = prometheus.NewDesc("mcm_kubevirt_credentials_lifetime_seconds",
	"Lifetime of the credentials in the kubeconfig of a provider cluster, from their start to their expiry; 0 if the start is unknown.",
	[]string{"server", "namespace", "type"}, nil)

var _ prometheus.Collector = (*Cache)(nil)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- expiryMetric

	descriptions <- lifetimeMetric
}

// Collect implements prometheus.Collector. Of several kubeconfigs with the same server and
// namespace, it reports the most recently used one.
func (c *Cache) Collect(samples chan<- prometheus.Metric) {
	for to, e := range c.current() {
		for _, expiry := range e.expiries {
			for metric, value := range map[*prometheus.Desc]float64{
				expiryMetric:   float64(expiry.End.Unix()),
				lifetimeMetric: expiry.Lifetime().Seconds(),
			} {
				sample, err := prometheus.NewConstMetric(metric, prometheus.GaugeValue, value, to.server, to.namespace, expiry.Kind)
				if err == nil {
					samples <- sample
				}
			}
		}
	}
}

func (c *Cache) current() map[location]*entry {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.evict()

	latest := map[location]*entry{}

	for _, e := range c.entries {
		if other, ok := latest[e.location]; !ok || e.used.After(other.used) {
			latest[e.location] = e
		}
	}

	return latest
}
