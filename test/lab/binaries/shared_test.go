// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSets_ShareVersions requires that the sets of every lab have the same versions of the modules that they have in
// common. Otherwise, the first run compiles k8s.io/client-go and all that it imports for each of them.
func TestSets_ShareVersions(t *testing.T) {
	t.Parallel()
	modules := filepath.Join("..", "modules")
	const fewest = 20
	for _, set := range []string{"etcd", kubernetes.set + "-" + kubernetes.preset, kubeVirt.set + "-" + kubeVirt.preset} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			shared := map[string]string{}
			same := map[string]string{}
			have := moduleVersions(t, filepath.Join(modules, set))
			for module, version := range moduleVersions(t, filepath.Join(modules, "mcm")) {
				if other, common := have[module]; common {
					shared[module] = other
					same[module] = version
				}
			}
			require.Greater(t, len(shared), fewest)
			require.Equal(t, same, shared)
		})
	}
}

// moduleVersions returns the versions of the modules in a go.mod, after its replacements.
func moduleVersions(t *testing.T, folder string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	versions := map[string]string{}
	for _, pattern := range []string{`(?m)^(?:require)?\s+(\S+) (v\S+)`, `(?m)^(?:replace)?\s+(\S+) => \S+ (v\S+)`} {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(data), -1) {
			versions[match[1]] = match[2]
		}
	}
	return versions
}
