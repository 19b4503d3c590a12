package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestPermissionsOfTheAdmission requires the tables of deployment.md to name each permission of the
// admission, and whether it is one for all objects of a kind.
func TestPermissionsOfTheAdmission(t *testing.T) {
	t.Parallel()

	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?) \\| (.+?) \\| (.+?) \\|").FindAllStringSubmatch(
		sectionsOf(content(t, "deployment.md"))["Permissions of the admission"], -1,
	) {
		rows[strings.Join(row[1:], " | ")] = true
	}

	granted := map[string]bool{}
	for _, rule := range append(rulesOf(t, charts.AdmissionRuntimePath), rulesOf(t, charts.AdmissionApplicationPath)...) {
		objects := "all"
		if len(rule.ResourceNames) > 0 {
			objects = "its own"
		}

		granted["`"+strings.Join(rule.Resources, "`, `")+"` | "+strings.Join(rule.Verbs, ", ")+" | "+objects] = true
	}

	require.Equal(t, granted, rows)
}

// rulesOf returns the rules of the Role or ClusterRole of a chart.
func rulesOf(t *testing.T, chart string) []rbacv1.PolicyRule {
	t.Helper()

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.2"}).
		RenderEmbeddedFS(charts.Installation, chart, "provider-kubevirt", "garden", nil)
	require.NoError(t, err)

	for _, manifest := range release.Manifests {
		role := rbacv1.ClusterRole{}
		if manifest.Head.Kind == "Role" || manifest.Head.Kind == "ClusterRole" {
			require.NoError(t, yaml.Unmarshal([]byte(manifest.Content), &role))

			return role.Rules
		}
	}

	require.Fail(t, "no role", chart)

	return nil
}
