// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package imagevector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestComponent_Resources requires the component of the Open Component Model to have the charts and the images of a release, and the
// images that the extension deploys.
func TestComponent_Resources(t *testing.T) {
	t.Parallel()

	const registry = "ghcr.io/gardener/machine-controller-manager-provider-kubevirt"

	want := map[string]string{registry + "/gardener-extension-admission-kubevirt:VERSION": "ociImage"}

	for _, image := range ImageVector() {
		tag := *image.Tag
		if strings.HasPrefix(*image.Repository, registry) {
			tag = "VERSION"
		}

		want[*image.Repository+":"+tag] = "ociImage"
	}

	for _, pattern := range []string{"../../charts/*/Chart.yaml", "../charts/gardener-*/Chart.yaml", "../charts/gardener-*/charts/*/Chart.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)

		for _, file := range files {
			var chart struct{ Name string }

			readYAML(t, file, &chart)
			want[registry+"/charts/"+chart.Name+":VERSION"] = "helmChart"
		}
	}

	var constructor struct {
		Components []struct {
			Name, Version string
			Resources     []struct {
				Name, Type, Version string
				ExtraIdentity       map[string]string
				Access              struct{ Type, ImageReference string }
			}
		}
	}

	readYAML(t, "../../.ocm/component-constructor.yaml", &constructor)
	require.Len(t, constructor.Components, 1)

	found := map[string]string{}
	identities := map[string]bool{}

	for _, resource := range constructor.Components[0].Resources {
		require.Equal(t, "ociArtifact", resource.Access.Type)

		found[resource.Access.ImageReference] = resource.Type
		require.True(t, strings.HasSuffix(resource.Access.ImageReference, ":"+resource.Version), resource.Name)

		identity := resource.Name + resource.ExtraIdentity["imagevector-gardener-cloud+tag"]
		require.False(t, identities[identity], "%s has the identity of another resource", identity)
		identities[identity] = true
	}

	require.Equal(t, want, found)
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()

	raw, err := os.ReadFile(filepath.Clean(file))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(raw, into))
}
