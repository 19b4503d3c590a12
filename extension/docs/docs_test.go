// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the pages of the extension. Links are tested with those of the driver.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	"github.com/stretchr/testify/require"
)

// The pages with generated tables, relative to the root of the repository.
const (
	deploymentPage      = "extension/docs/operations/deployment.md"
	troubleshootingPage = "extension/docs/usage/troubleshooting.md"
)

// TestNamedTests requires that the tests exist that the pages name.
func TestNamedTests(t *testing.T) {
	t.Parallel()

	sources := content(t, "../pkg/*/*/*_test.go", "../pkg/*/*/*/*_test.go", "../test/integration/*_test.go")

	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(content(t, append(pages(t), "../README.md")...), -1) {
		require.Contains(t, sources, "func "+name+"(")
	}
}

// TestKubernetesVersions requires the page for operators to have the versions that Gardener supports.
func TestKubernetesVersions(t *testing.T) {
	t.Parallel()

	supported := kubernetesversion.SupportedVersions
	require.Contains(t, content(t, "operations/usage-as-operator.md"), "Kubernetes "+supported[0]+" to "+supported[len(supported)-1]+" with Gardener 1.149")
}

// TestFrontMatter requires each page in a folder to begin with its title, which Gardener's website shows.
func TestFrontMatter(t *testing.T) {
	t.Parallel()

	for _, page := range pages(t) {
		if filepath.Dir(page) != "." {
			require.Regexp(t, `^---\ntitle: (.+)\n---\n\n# .+\n`, content(t, page), page)
		}
	}
}

// pages returns the pages of all folders.
func pages(t *testing.T) []string {
	t.Helper()

	all, err := filepath.Glob("*.md")
	require.NoError(t, err)

	inFolders, err := filepath.Glob("*/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, inFolders)

	return append(all, inFolders...)
}

// content returns the content of the files that match patterns.
func content(t *testing.T, patterns ...string) string {
	t.Helper()

	var all strings.Builder

	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)

		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
		}
	}

	return all.String()
}
