package kubeconfig

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// expiryMetric tells when credentials end. Nobody asks the server for it: an alert has to come before the server refuses them.
var expiryMetric = prometheus.NewDesc("mcm_kubevirt_credentials_expiry_timestamp_seconds",
	"When the credentials in the kubeconfig of a provider cluster expire, in seconds since 1970. None is shown for those without an end.",
	[]string{"server", "namespace", "type"}, nil)

// lifetimeMetric tells how long credentials are good in all, so that an alert can tell those that are renewed every hour from those of a year.
var lifetimeMetric = prometheus.NewDesc("mcm_kubevirt_credentials_lifetime_seconds",
	"How long the credentials in the kubeconfig of a provider cluster are good from their beginning to their end; 0 if the beginning is not known.",
	[]string{"server", "namespace", "type"}, nil)

// expiry is when one kind of credentials ends.
type expiry struct {
	kind string
	// since and at are when it begins and ends, in seconds since 1970. since is 0 if that is not known.
	since, at float64
}

// lifetime returns how long the credentials are good in all, in seconds; 0 if that is not known.
func (e expiry) lifetime() float64 {
	if e.since <= 0 {
		return 0
	}

	return max(0, e.at-e.since)
}

var _ prometheus.Collector = (*Cache)(nil)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- expiryMetric

	descriptions <- lifetimeMetric
}

// Collect implements prometheus.Collector. Of several kubeconfigs that lead to the same place the one that was used last counts.
func (c *Cache) Collect(samples chan<- prometheus.Metric) {
	for to, e := range c.current() {
		for _, end := range e.expiries {
			for metric, value := range map[*prometheus.Desc]float64{expiryMetric: end.at, lifetimeMetric: end.lifetime()} {
				sample, err := prometheus.NewConstMetric(metric, prometheus.GaugeValue, value, to.server, to.namespace, end.kind)
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

// expiriesOf returns what credentials say about their end, unverified: whom they can fool is whoever made them.
func expiriesOf(config *rest.Config) []expiry {
	var list []expiry

	if chain, err := cert.ParseCertsPEM(config.CertData); err == nil {
		list = append(list, expiry{
			kind: "client-certificate", since: float64(chain[0].NotBefore.Unix()), at: float64(chain[0].NotAfter.Unix()),
		})
	}

	if claims := claimsOf(config.BearerToken); claims.Exp > 0 {
		list = append(list, expiry{kind: "token", since: claims.Iat, at: claims.Exp})
	}

	return list
}

// claims are those of a JSON Web Token that say when it is good, in seconds since 1970.
type claims struct {
	Iat float64 `json:"iat"`
	Exp float64 `json:"exp"`
}

// claimsOf returns a token's claims; none if it has none, or is no JSON Web Token.
func claimsOf(token string) claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}

	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}
	}

	var read claims

	if err := json.Unmarshal(payload, &read); err != nil {
		return claims{}
	}

	return read
}
