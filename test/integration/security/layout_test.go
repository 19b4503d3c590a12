// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoSimulatorInTheDriver checks the dependencies of the shipped commands.
func TestNoSimulatorInTheDriver(t *testing.T) {
	t.Parallel()

	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../../cmd/...").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "machine-controller-manager-provider-kubevirt/pkg/providercluster")
	require.NotContains(t, string(out), "machine-controller-manager-provider-kubevirt/test/")
}
