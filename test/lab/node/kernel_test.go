// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
)

func TestLacking(t *testing.T) {
	t.Parallel()
	require.NoError(t, lacking(nil, "/cache"))
	err := lacking([]string{"overlay", "vxlan"}, "/cache")
	require.ErrorIs(t, err, host.ErrMissing)
	require.ErrorContains(t, err, "the kernel refuses overlay, vxlan. Load")
	require.ErrorContains(t, err, "instead of /cache")
}

func TestFeaturesAreAValidScript(t *testing.T) {
	t.Parallel()
	require.NoError(t, exec.CommandContext(t.Context(), "/bin/sh", "-n", "-c", features).Run())
}
