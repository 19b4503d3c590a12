// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestShell sources the file in a real shell, without and with an installed Helm. The paths contain characters that need
// quoting.
func TestShell(t *testing.T) {
	t.Parallel()

	folder := filepath.Join(t.TempDir(), "it's a $HOME")
	require.NoError(t, os.MkdirAll(folder, 0o700))

	kubectl := program(t, folder, "kubectl")
	withoutHelm := t.TempDir()
	withHelm := t.TempDir()
	program(t, withHelm, "helm")

	bash, err := exec.LookPath("bash")
	require.NoError(t, err)

	for _, path := range []string{withoutHelm, withHelm} {
		require.NoError(t, os.Symlink(bash, filepath.Join(path, "bash")))
	}

	file := filepath.Join(folder, "landscape.sh")
	remove, err := writeShell(file, kubectl, "echo built helm", seed.Kubeconfigs{Garden: folder + "/garden", Seed: folder + "/seed", Provider: folder + "/provider", Target: folder + "/target"})
	require.NoError(t, err)

	for _, tc := range []struct{ path, command, want string }{
		{withoutHelm, "garden get 'a b'", "kubectl --kubeconfig " + folder + "/garden get a b"},
		{withoutHelm, "runtime get 'a b'", "kubectl --kubeconfig " + folder + "/seed get a b"},
		{withoutHelm, "seed get 'a b'", "kubectl --kubeconfig " + folder + "/seed get a b"},
		{withoutHelm, "provider get 'a b'", "kubectl --kubeconfig " + folder + "/provider get a b"},
		{withoutHelm, "shoot get 'a b'", "kubectl --kubeconfig " + folder + "/target get a b"},
		{withoutHelm, "kubectl get", "kubectl get"},
		{withoutHelm, `bash -c 'echo $SEED'`, folder + "/seed"},
		{withoutHelm, "helm version", "built helm version"},
		{withHelm, "helm version", "helm version"},
	} {
		shell := exec.CommandContext(t.Context(), bash, "-euc", `source "$0"; `+tc.command, file)
		shell.Env = []string{"PATH=" + tc.path}

		output, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Equal(t, tc.want+"\n", string(output))
	}

	require.NoError(t, remove())
	require.NoFileExists(t, file)
}

// program writes a program that prints its name and arguments.
func program(t *testing.T, folder, name string) string {
	t.Helper()

	file := filepath.Join(folder, name)
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho "+name+" \"$@\"\n"), 0o700))

	return file
}
