// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

// alert contains the fields of an alert for operators. TestMetrics checks that Prometheus can parse
// the alerts.
type alert struct {
	Alert       string            `json:"alert"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// TestManifests_AlertsInDocs writes the alerts into docs/metrics.md, which has an action for each.
func TestManifests_AlertsInDocs(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("monitoring/rules/prometheusrule.yaml")
	require.NoError(t, err)

	var object struct {
		Spec struct {
			Groups []struct {
				Rules []alert `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}

	require.NoError(t, yaml.Unmarshal(raw, &object))

	const runbook = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/docs/metrics.md#"

	var rows [][]string

	for _, group := range object.Spec.Groups {
		for _, a := range group.Rules {
			anchor := strings.ToLower(a.Alert)
			rows = append(rows, []string{`<a id="` + anchor + "\"></a>`" + a.Alert + "`", a.Labels["severity"], docs.Kept})

			require.Equal(t, runbook+anchor, a.Annotations["runbook_url"], "it leads to the row")

			require.Regexp(t, `^\d+[mh]`, a.For, a.Alert)
			require.Contains(t, []string{"warning", "critical"}, a.Labels["severity"], a.Alert)
			require.NotEmpty(t, a.Annotations["summary"], a.Alert)
			require.Contains(t, a.Annotations["description"], "$labels.namespace", "%s: the description must name the shoot", a.Alert)
		}
	}

	docs.RequireTable(t, "docs/metrics.md", "alerts", []string{"alert", "severity", "action"}, rows)
}

// TestManifests_SampleLimit computes the largest number of series that the monitor of a shoot keeps, from the labels in
// docs/metrics.md: a scrape with more than the limit fails as a whole.
func TestManifests_SampleLimit(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("monitoring/gardener/servicemonitor.yaml")
	require.NoError(t, err)

	var monitor struct {
		Spec struct {
			SampleLimit int `json:"sampleLimit"`
			Endpoints   []struct {
				MetricRelabelings []struct {
					Regex string `json:"regex"`
				} `json:"metricRelabelings"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &monitor))

	kept := regexp.MustCompile("^(?:" + monitor.Spec.Endpoints[0].MetricRelabelings[0].Regex + ")$")

	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)

	// The numbers of values of each label: phases and operations of that page, codes of gRPC and of MCM, outcomes and
	// states; and of kubeconfigs of a shoot, of which each has a server, a namespace and a type of credentials.
	domains := map[string]int{"phase": 5, "operation": 6, "error_code": 18, "outcome": 4, "state": 3, "provider": 1, "server": 100, "namespace": 1, "type": 1}
	// The buckets of phases, with the one without a bound.
	const buckets = 16

	series := 0

	for _, row := range regexp.MustCompile("(?m)^\\| `(mcm_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		combinations := 1

		for _, label := range regexp.MustCompile(`\w+`).FindAllString(row[3], -1) {
			combinations *= domains[label]
		}

		names := map[string]int{"": 1}
		if row[2] == "histogram" {
			names = map[string]int{"_bucket": buckets, "_sum": 1, "_count": 1}
		}

		for suffix, count := range names {
			if kept.MatchString(row[1] + suffix) {
				require.Positive(t, combinations, "%s has a label of unknown size", row[1])

				series += combinations * count
			}
		}
	}

	require.Greater(t, series, 2*domains["server"], "the table was found")
	require.LessOrEqual(t, series, monitor.Spec.SampleLimit)
	t.Logf("at most %d series", series)
}
