// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driveroptions_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
)

// TestVersion is about a build without the linker's flags of the Makefile, as this test is one.
func TestVersion(t *testing.T) {
	t.Parallel()

	file, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)

	want := strings.TrimSpace(string(file))
	require.Equal(t, want, driveroptions.Release())
	require.Regexp(t, "^"+want+"( [0-9a-f]{40}(-dirty)?)?$", driveroptions.Version())
}
