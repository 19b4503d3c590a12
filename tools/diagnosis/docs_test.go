// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShootReasons_Documented compares the reasons with docs/troubleshooting.md.
func TestShootReasons_Documented(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)

	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, row[1])
	}

	require.Equal(t, slices.Concat(deploymentReasons, ShootReasons), rows)
}
