// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	tables "github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

// TestPermissionsOfTheAdmission_InDocs writes the permissions of the admission, and whether each is one for all
// objects of a kind.
func TestPermissionsOfTheAdmission_InDocs(t *testing.T) {
	t.Parallel()

	for table, chart := range map[string]string{
		"permissions in the runtime cluster":        charts.AdmissionRuntimePath,
		"permissions in the virtual garden cluster": charts.AdmissionApplicationPath,
	} {
		var rows [][]string

		for _, rule := range rulesOf(t, chart) {
			objects := "all"
			if len(rule.ResourceNames) > 0 {
				objects = "its own"
			}

			rows = append(rows, []string{"`" + strings.Join(rule.Resources, "`, `") + "`", strings.Join(rule.Verbs, ", "), objects, tables.Kept})
		}

		tables.RequireTable(t, deploymentPage, table, []string{"resource", "verbs", "objects", "purpose"}, rows)
	}
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
