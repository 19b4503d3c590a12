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

// TestSets_ShareVersions requires that programs that the first run compiles together have the same versions of the modules
// that they have in common. Otherwise, it compiles k8s.io/client-go and all that it imports for each of them. Of the
// driver, which updates its dependencies when it must, it requires only the versions of Kubernetes.
func TestSets_ShareVersions(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	lab := moduleVersions(t, filepath.Join("..", "modules", "mcm"))
	for _, set := range []string{"etcd", kubernetes.set + "-" + kubernetes.preset, kubeVirt.set + "-" + kubeVirt.preset, cdi.set + "-" + cdi.preset} {
		requireShared(t, lab, filepath.Join("..", "modules", set), "")
	}
	requireShared(t, lab, root, "k8s.io/")

	extension := moduleVersions(t, filepath.Join(root, "extension"))
	shoot := []string{"gardener", csiDriver}
	for _, s := range sidecarSets {
		if s.runsWith(kubernetes.preset) {
			shoot = append(shoot, s.set)
		}
	}
	for _, set := range shoot {
		requireShared(t, extension, filepath.Join("..", "modules", set), "")
	}
}

// requireShared requires that the module in a folder has the given versions of the modules whose paths have a prefix.
func requireShared(t *testing.T, given map[string]versions, folder, prefix string) {
	t.Helper()
	const fewest = 5
	shared, same := map[string]versions{}, map[string]versions{}
	for module, have := range moduleVersions(t, folder) {
		if version, common := given[module]; common && strings.HasPrefix(module, prefix) {
			shared[module], same[module] = have, version
		}
	}
	require.Greater(t, len(shared), fewest, folder)
	require.Equal(t, same, shared, folder)
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
