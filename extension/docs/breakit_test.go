// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBreakIt compares the faults of the page with those of the lab's simulated data plane.
func TestBreakIt(t *testing.T) {
	t.Parallel()

	page := content(t, "development/local-setup.md")
	behaviour := content(t, "../../test/lab/dataplane/behaviour/behaviour.go")

	known := map[string]bool{}
	for _, constant := range regexp.MustCompile(`= "(sim\.lab/[a-z-]+)"`).FindAllStringSubmatch(behaviour, -1) {
		known[constant[1]] = true
		require.Contains(t, page, constant[1], "the page lacks an annotation or label of the lab")
	}

	require.NotEmpty(t, known)

	for _, used := range regexp.MustCompile(`sim\.lab/[a-z-]+`).FindAllString(page, -1) {
		require.True(t, known[used], "%s: the lab does not have it", used)
	}

	for _, fault := range regexp.MustCompile(`Fault = "([a-z-]+)"`).FindAllStringSubmatch(behaviour, -1) {
		require.Regexp(t, "`"+fault[1]+"`|sim.lab/fault: "+fault[1]+"}", page, "the page lacks a fault of the lab")
	}
}
