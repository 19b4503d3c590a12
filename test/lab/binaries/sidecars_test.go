// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestSidecarSets requires the lab to build, for each version of Kubernetes, the versions of the programs that the
// extension deploys with it.
func TestSidecarSets(t *testing.T) {
	t.Parallel()
	modules, err := modulesDir()
	require.NoError(t, err)
	minors, err := kubernetes.minors(modules)
	require.NoError(t, err)
	for _, minor := range minors {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()
			l, err := newLayout(modules, "/cache", only(kubernetes, minor))
			require.NoError(t, err)
			deployed := imagesFor(t, minor)
			for _, s := range sidecarSets {
				for _, program := range s.programs {
					image := path.Base(program) + ":" + string(l.versions[s.set])
					require.Equal(t, s.runsWith(minor), deployed[image], image)
				}
			}
			require.Len(t, l.gardenerPrograms(), 2+4, "Gardener, the driver, and one version of each sidecar")
		})
	}
}

// imagesFor returns the ends of the images for a minor version of Kubernetes: extension/imagevector/images.yaml.
func imagesFor(t *testing.T, minor string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("../../../extension/imagevector/images.yaml")
	require.NoError(t, err)
	var file struct {
		Images []struct{ Repository, Tag, TargetVersion string }
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	found := map[string]bool{}
	for _, image := range file.Images {
		from, isFrom := strings.CutPrefix(image.TargetVersion, ">= ")
		below, isBelow := strings.CutPrefix(image.TargetVersion, "< ")
		require.True(t, image.TargetVersion == "" || isFrom || isBelow, image.TargetVersion)
		if (!isFrom || minor >= from) && (!isBelow || minor < below) {
			found[path.Base(image.Repository)+":"+image.Tag] = true
		}
	}
	return found
}
