// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestKrewManifest requires the manifest of the kubectl plugin to have each platform that `make krew` packages, with its placeholders.
func TestKrewManifest(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("../krew.yaml")
	require.NoError(t, err)

	var plugin struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version, ShortDescription string
			Platforms                 []struct {
				Selector         struct{ MatchLabels struct{ OS, Arch string } }
				URI, Sha256, Bin string
			}
		}
	}

	require.NoError(t, yaml.Unmarshal(raw, &plugin))
	require.Equal(t, "mcm-kubevirt", plugin.Metadata.Name)
	require.LessOrEqual(t, len(plugin.Spec.ShortDescription), 70, "krew's index has this limit")

	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)

	packaged := regexp.MustCompile(`for platform in ((?:\w+-\w+ ?)+); do`).FindStringSubmatch(string(makefile))
	require.NotNil(t, packaged)

	var platforms []string

	for _, p := range plugin.Spec.Platforms {
		platform := p.Selector.MatchLabels.OS + "-" + p.Selector.MatchLabels.Arch
		platforms = append(platforms, platform)

		require.Equal(t, "{"+platform+"}", p.Sha256)
		require.Equal(t, "mcm-kubevirt", p.Bin)
		require.True(t, strings.HasSuffix(p.URI, "/releases/download/{VERSION}/mcm-kubevirt-"+platform+".tar.gz"), p.URI)
	}

	require.Equal(t, strings.Fields(packaged[1]), platforms)
}

// TestOwners requires CODEOWNERS to name only paths that exist.
func TestOwners(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("../.github/CODEOWNERS")
	require.NoError(t, err)

	for _, line := range strings.Split(string(raw), "\n") {
		path, owners, _ := strings.Cut(line, " ")
		if path == "" || path == "#" {
			continue
		}

		require.Regexp(t, `^( *@[a-z-]+/[a-z-]+)+$`, owners, line)

		if path != "*" {
			_, err := os.Stat(filepath.Join("..", path))
			require.NoError(t, err)
		}
	}
}
