package kubernetes_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// alert contains the fields of an alert for operators. TestMetrics checks that Prometheus can parse
// the alerts.
type alert struct {
	Alert       string            `json:"alert"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// TestAlertsAreDocumented compares the alerts with docs/metrics.md, which has an action for each.
func TestAlertsAreDocumented(t *testing.T) {
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

	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)

	documented, shipped := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}

	for _, group := range object.Spec.Groups {
		for _, a := range group.Rules {
			shipped[a.Alert] = a.Labels["severity"]

			require.Regexp(t, `^\d+[mh]`, a.For, a.Alert)
			require.Contains(t, []string{"warning", "critical"}, a.Labels["severity"], a.Alert)
			require.NotEmpty(t, a.Annotations["summary"], a.Alert)
			require.Contains(t, a.Annotations["description"], "$labels.namespace", "%s: the description must name the shoot", a.Alert)
		}
	}

	require.NotEmpty(t, shipped)
	require.Equal(t, shipped, documented)
}
