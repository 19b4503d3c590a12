// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestMetricsOfCharts requires the extension and the admission to export each metric, with each label, that
// their alerts or the dashboard use.
func TestMetricsOfCharts(t *testing.T) {
	t.Parallel()

	shoot := newShoot(t, named("metrics"))
	pool(shoot, 0).Minimum = 0
	require.NoError(t, shoot.Reconcile(t.Context())) // It calls the webhooks of the extension,

	applyLandscape(t) // and this those of the admission.

	requireExported(t, charts.ExtensionPath, theSeed.ExtensionMetrics)
	requireExported(t, charts.AdmissionRuntimePath, theSeed.AdmissionMetrics)

	requireNothingLeft(t, shoot)
}

// requireExported requires a program to export the metrics of its chart.
func requireExported(t *testing.T, chart, url string) {
	t.Helper()

	var used []struct {
		From, Metric string
		Labels       []string
	}

	output, err := theSeed.Evaluate(t.Context(), monitoringObjects(t, chart))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, &used))
	require.NotEmpty(t, used)

	eventually(t, func(ctx context.Context) (bool, string) {
		exported, err := theSeed.Scrape(ctx, url)
		if err != nil {
			return false, err.Error()
		}

		for _, u := range used {
			if u.Metric != "up" && !exports(exported, u.Metric, u.Labels) {
				return false, chart + ", " + u.From + ": no metric " + u.Metric + " with the labels " + strings.Join(u.Labels, ", ")
			}
		}

		return true, ""
	})
}

// exports reports whether the text has a series of a metric with labels. Prometheus adds the labels job
// and instance.
func exports(text, metric string, labels []string) bool {
	series := regexp.MustCompile(`(?m)^`+metric+`(\{.*\})? `).FindAllStringSubmatch(text, -1)

	return slices.ContainsFunc(series, func(match []string) bool {
		return !slices.ContainsFunc(labels, func(label string) bool {
			return label != "job" && label != "instance" && !strings.Contains(match[1], label+`="`)
		})
	})
}

// monitoringObjects returns the alerts and the dashboards of charts.
func monitoringObjects(t *testing.T, from ...string) []byte {
	t.Helper()

	var all bytes.Buffer

	for _, chart := range from {
		for _, object := range render(t, chart, "", seed.ExtensionNamespace) {
			if slices.Contains([]string{"PrometheusRule", "ConfigMap", "ServiceMonitor"}, object.GetKind()) {
				raw, err := object.MarshalJSON()
				require.NoError(t, err)
				all.WriteString("---\n" + string(raw) + "\n")
			}
		}
	}

	return all.Bytes()
}

// TestAlerts evaluates each alert with Prometheus' own rules, for firing and for other series.
func TestAlerts(t *testing.T) {
	t.Parallel()

	const file = "testdata/alerts.yaml"

	var cases []struct {
		Alert, Reason, At string
		Series            map[string]string
		// Fires is part of the alert's description; empty: it must not fire.
		Fires string
	}

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &cases))

	objects := monitoringObjects(t, charts.ExtensionPath, charts.AdmissionRuntimePath)

	output, err := theSeed.Evaluate(t.Context(), objects, file)
	require.NoError(t, err)

	var firing [][]string
	require.NoError(t, json.Unmarshal(output, &firing))

	fires := []string{}
	silent := []string{}

	for i, c := range cases {
		if c.Fires == "" {
			silent = append(silent, c.Alert)

			require.Empty(t, firing[i], "%s: %s", c.Alert, c.Reason)
		} else {
			fires = append(fires, c.Alert)

			require.Len(t, firing[i], 1, "%s: %s", c.Alert, c.Reason)
			require.Contains(t, firing[i][0], c.Fires, "%s: %s", c.Alert, c.Reason)
		}
	}

	for _, match := range regexp.MustCompile(`"alert":"(\w+)"`).FindAllStringSubmatch(string(objects), -1) {
		require.Contains(t, fires, match[1], "each alert has a case in which it fires")
		require.Contains(t, silent, match[1], "each alert has a case in which it does not fire")
	}
}
