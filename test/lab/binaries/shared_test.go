// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSets_ShareVersions requires that the sets of every lab and the driver have the same versions of the modules that
// they have in common. Otherwise, the first run compiles k8s.io/client-go and all that it imports for each of them. Of the
// driver, which updates its dependencies when it must, it requires only the versions of Kubernetes.
func TestSets_ShareVersions(t *testing.T) {
	t.Parallel()
	modules := filepath.Join("..", "modules")
	const driver, fewest = "driver", 5
	folders := map[string]string{driver: filepath.Join("..", "..", "..")}
	for _, set := range []string{"etcd", kubernetes.set + "-" + kubernetes.preset, kubeVirt.set + "-" + kubeVirt.preset, cdi.set + "-" + cdi.preset} {
		folders[set] = filepath.Join(modules, set)
	}
	for set, folder := range folders {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			shared := map[string]versions{}
			same := map[string]versions{}
			have := moduleVersions(t, folder)
			for module, version := range moduleVersions(t, filepath.Join(modules, "mcm")) {
				if other, common := have[module]; common && (set != driver || strings.HasPrefix(module, "k8s.io/")) {
					shared[module] = other
					same[module] = version
				}
			}
			require.Greater(t, len(shared), fewest)
			require.Equal(t, same, shared)
		})
	}
}

// versions are the required version of a module, which is in the build IDs of its packages, and that of its sources.
type versions struct{ required, used string }

// moduleVersions returns the versions of the modules in a go.mod.
func moduleVersions(t *testing.T, folder string) map[string]versions {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	content := regexp.MustCompile(`(?s)exclude \(.*?\)`).ReplaceAllString(string(data), "")
	have := map[string]versions{}
	for _, match := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)(?: //.*)?$`).FindAllStringSubmatch(content, -1) {
		have[match[1]] = versions{required: match[2], used: match[2]}
	}
	for _, match := range regexp.MustCompile(`(?m)^(?:replace)?\s+(\S+) => \S+ (v\S+)`).FindAllStringSubmatch(content, -1) {
		if version, required := have[match[1]]; required {
			have[match[1]] = versions{required: version.required, used: match[2]}
		}
	}
	return have
}
