// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"

	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestRegistrationValues renders the charts with the values of the Extension in deployment.md. Each of its
// images must be in the objects.
func TestRegistrationValues(t *testing.T) {
	t.Parallel()

	extension := &operatorv1alpha1.Extension{}

	for _, block := range fragment.FindAllStringSubmatch(content(t, "operations/deployment.md"), -1) {
		if strings.Contains(block[1], "kind: Extension\n") {
			require.NoError(t, yaml.UnmarshalStrict([]byte(block[1]), extension))
		}
	}

	deployment := extension.Spec.Deployment
	require.NotNil(t, deployment)

	for chart, raw := range map[string][]byte{
		charts.ExtensionPath:        deployment.ExtensionDeployment.Values.Raw,
		charts.AdmissionRuntimePath: deployment.AdmissionDeployment.Values.Raw,
	} {
		values := map[string]any{}
		require.NoError(t, yaml.Unmarshal(raw, &values))

		release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.2"}).
			RenderEmbeddedFS(charts.Installation, chart, "provider-kubevirt", "garden", values)
		require.NoError(t, err)

		var objects strings.Builder
		for _, manifest := range release.Manifests {
			objects.WriteString(manifest.Content)
		}

		images := regexp.MustCompile(`"repository": ?"([^"]+)"`).FindAllStringSubmatch(string(raw), -1)
		require.NotEmpty(t, images, chart)

		for _, image := range images {
			require.Contains(t, objects.String(), image[1], chart)
		}
	}
}

// TestValues requires the chart of the extension to have the values in the table of deployment.md.
func TestValues(t *testing.T) {
	t.Parallel()

	values := content(t, "../charts/gardener-extension-provider-kubevirt/values.yaml")
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(sectionsOf(content(t, "operations/deployment.md"))["Values"], -1)
	require.NotEmpty(t, rows)

	for _, row := range rows {
		for _, value := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			name := value[1][strings.LastIndex(value[1], ".")+1:]
			require.Regexp(t, `(?m)^[ #]*`+name+`:`, values, value[1])
		}
	}
}
