// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// execInto matches a kubectl exec that names a container.
	execInto = regexp.MustCompile(`kubectl .*\bexec .*?-c ([a-z0-9-]+).* -- `)
	// continued matches the continuation of a command on the next line.
	continued = regexp.MustCompile(`\\\n *`)
	// container matches the name of a container in a manifest.
	container = regexp.MustCompile(`(?m)^ +- name: ([a-z0-9-]+)\n +image: `)
)

// TestContainersAreThere compares the containers that the pages and the commands' help texts exec
// into with the containers of the manifests.
func TestContainersAreThere(t *testing.T) {
	t.Parallel()

	shipped := containers(t)
	require.Contains(t, shipped, "machine-controller-manager", "the base has one")
	require.Contains(t, shipped, "machine-controller-manager-provider-kubevirt", "so has the sidecar")

	found := 0

	for _, file := range append(pages(t), commands(t)...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)

		for _, into := range execInto.FindAllStringSubmatch(continued.ReplaceAllString(string(text)+"\n", ""), -1) {
			require.Contains(t, shipped, into[1], "%s: %s", file, into[0])

			found++
		}
	}

	require.Greater(t, found, 4)
}

// containers returns the names of the containers in the shipped Deployments.
func containers(t *testing.T) []string {
	t.Helper()

	var names []string

	for _, file := range []string{"base/deployment.yaml", "gardener-sidecar/container.yaml", "grpc-driver/deployment.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "kubernetes", file))
		require.NoError(t, err)

		for _, name := range container.FindAllStringSubmatch(string(text), -1) {
			names = append(names, name[1])
		}
	}

	return names
}

// commands returns the paths of the programs' sources, which contain their help texts.
func commands(t *testing.T) []string {
	t.Helper()

	var found []string

	for _, folder := range []string{"cmd", "tools"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") {
				found = append(found, path)
			}

			return err
		}))
	}

	return found
}
