// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// alertCase holds scraped series and the expected alert.
type alertCase struct {
	Alert  string            `json:"alert"`
	Reason string            `json:"reason"`
	Series map[string]string `json:"series"`
	At     string            `json:"at"`
	// Fires is part of the alert's description; empty: it must not fire.
	Fires string `json:"fires"`
}

// TestAlerts evaluates every alert with Prometheus' own rules, for firing
// and for non-firing series.
func TestAlerts(t *testing.T) {
	t.Parallel()

	fire, silent := evaluate(t, "monitoring/rules/prometheusrule.yaml", "testdata/alerts.yaml")

	for _, used := range harness.EvaluateMonitoring(t, filepath.Join("monitoring", "rules")) {
		if name, ok := strings.CutPrefix(used.From, "alert "); ok {
			require.True(t, fire[name] && silent[name], "%s: each alert has a case of both kinds", name)
		}
	}
}

// TestAlerts_ProviderCluster evaluates the alert about a drain that waits: the control plane of a shoot is gone,
// hibernated, or has moved.
func TestAlerts_ProviderCluster(t *testing.T) {
	t.Parallel()

	fire, silent := evaluate(t, "monitoring/provider-cluster/prometheusrule.yaml", "testdata/provideralerts.yaml")
	require.Equal(t, map[string]bool{"KubeVirtDrainWaits": true}, fire)
	require.Equal(t, fire, silent)
}

// evaluate evaluates the cases of a file with shipped alerts. It returns which alerts have cases of each kind.
func evaluate(t *testing.T, rules, file string) (fire, silent map[string]bool) {
	t.Helper()

	text, err := os.ReadFile(file)
	require.NoError(t, err)

	var cases []alertCase

	require.NoError(t, yaml.UnmarshalStrict(text, &cases))

	shipped, err := manifests.Manifests.ReadFile(rules)
	require.NoError(t, err)

	fire = map[string]bool{}
	silent = map[string]bool{}

	for i, descriptions := range harness.FiringAlerts(t, shipped, file) {
		c := cases[i]
		if c.Fires == "" {
			silent[c.Alert] = true

			require.Empty(t, descriptions, "%s: %s", c.Alert, c.Reason)

			continue
		}

		fire[c.Alert] = true

		require.Len(t, descriptions, 1, "%s: %s", c.Alert, c.Reason)
		require.Contains(t, descriptions[0], c.Fires, "%s: %s", c.Alert, c.Reason)
	}

	return fire, silent
}
