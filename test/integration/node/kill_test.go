// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestKilledLab kills a second lab with real nodes, and requires that this machine is then as it was before.
func TestKilledLab(t *testing.T) {
	manager := filepath.Join(t.TempDir(), "lab-manager")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", manager,
		"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/manager").CombinedOutput()
	require.NoError(t, err, string(output))

	before := lookAtMachine(t)
	lab := exec.CommandContext(t.Context(), manager, "run", "--nodes=real", "--node-count=1", "--name=killed")
	lab.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, err := lab.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, lab.Start())
	awaitLine(t, console, "is ready")
	require.NotEqual(t, before.cgroups, lookAtMachine(t).cgroups, "the nodes of the lab have cgroups")

	require.NoError(t, lab.Process.Kill())
	require.Error(t, lab.Wait())

	harness.Eventually(t, "nothing is left of the lab", func(context.Context) (bool, error) {
		return true, lookAtMachine(t).differs(before)
	})
}
