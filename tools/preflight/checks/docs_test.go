// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// TestNames_AreDocumented compares the table of docs/troubleshooting.md with the checks and their order. The login and the
// dry run have results with other names, too.
func TestNames_AreDocumented(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../../docs/troubleshooting.md")
	require.NoError(t, err)

	var listed []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z][a-z-]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, match[1])
	}

	names := slices.Concat([]string{"credentials", "credentials-expiry", "class"}, checks.Names)
	after := slices.Index(names, "dry-run") + 1
	require.Equal(t, slices.Insert(names, after, "dropped-fields", "webhook"), listed)
}

// TestIncompatibilities_AreDocumented compares the table in docs/compatibility.md with the pairs that are
// checked.
func TestIncompatibilities_AreDocumented(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)

	_, section, found := strings.Cut(string(text), "### Pairs that do not work")
	require.True(t, found)

	section, _, _ = strings.Cut(section, "\n## ")
	require.Equal(t, len(checks.Incompatibilities), strings.Count(section, "\n| 1."))

	for _, pair := range checks.Incompatibilities {
		require.Contains(t, section, "\n| "+pair[0]+" | "+pair[1]+" | ")
	}
}
