package providerapi

import (
	"github.com/prometheus/client_golang/prometheus"
)

// expiryMetric tells when credentials end. Nobody asks the server for it: an alert has to come before the server refuses them.
var expiryMetric = prometheus.NewDesc("mcm_kubevirt_credentials_expiry_timestamp_seconds",
	"When the credentials in the kubeconfig of a provider cluster expire, in seconds since 1970. None is shown for those without an end.",
	[]string{"server", "namespace", "type"}, nil)

// lifetimeMetric tells how long credentials are good in all, so that an alert can tell those that are renewed every hour from those of a year.
var lifetimeMetric = prometheus.NewDesc("mcm_kubevirt_credentials_lifetime_seconds",
	"How long the credentials in the kubeconfig of a provider cluster are good from their beginning to their end; 0 if the beginning is not known.",
	[]string{"server", "namespace", "type"}, nil)

var _ prometheus.Collector = (*Cache)(nil)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- expiryMetric

	descriptions <- lifetimeMetric
}

// Collect implements prometheus.Collector. Of several kubeconfigs that lead to the same place the one that was used last counts.
func (c *Cache) Collect(samples chan<- prometheus.Metric) {
	for to, e := range c.current() {
		for _, expiry := range e.expiries {
			for metric, value := range map[*prometheus.Desc]float64{
				expiryMetric: float64(expiry.End.Unix()), lifetimeMetric: expiry.Lifetime().Seconds(),
			} {
				sample, err := prometheus.NewConstMetric(metric, prometheus.GaugeValue, value, to.server, to.namespace, expiry.Kind)
				if err == nil {
					samples <- sample
				}
			}
		}
	}
}

func (c *Cache) current() map[place]*entry {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.shrink()

	latest := map[place]*entry{}

	for _, e := range c.entries {
		if other, ok := latest[e.place]; !ok || e.used.After(other.used) {
			latest[e.place] = e
		}
	}

	return latest
}
