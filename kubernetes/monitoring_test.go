// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
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
