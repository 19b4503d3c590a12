package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestShell sources the file in a real shell. The paths contain characters that need quoting.
func TestShell(t *testing.T) {
	t.Parallel()

	folder := filepath.Join(t.TempDir(), "it's a $HOME")
	require.NoError(t, os.MkdirAll(folder, 0o700))

	kubectl := filepath.Join(folder, "kubectl")
	require.NoError(t, os.WriteFile(kubectl, []byte("#!/bin/sh\necho kubectl \"$@\"\n"), 0o700))

	file := filepath.Join(folder, "landscape.sh")
	remove, err := writeShell(file, kubectl, "echo helm", seed.Kubeconfigs{Garden: folder + "/garden", Seed: folder + "/seed", Provider: folder + "/provider", Target: folder + "/target"})
	require.NoError(t, err)

	for command, want := range map[string]string{
		"garden get 'a b'":     "kubectl --kubeconfig " + folder + "/garden get a b",
		"runtime get 'a b'":    "kubectl --kubeconfig " + folder + "/seed get a b",
		"seed get 'a b'":       "kubectl --kubeconfig " + folder + "/seed get a b",
		"provider get 'a b'":   "kubectl --kubeconfig " + folder + "/provider get a b",
		"shoot get 'a b'":      "kubectl --kubeconfig " + folder + "/target get a b",
		"kubectl get":          "kubectl get",
		`bash -c 'echo $SEED'`: folder + "/seed",
		"helm version":         "helm version",
	} {
		shell := exec.CommandContext(t.Context(), "bash", "-euc", `source "$0"; `+command, file)
		shell.Env = []string{"PATH=/usr/bin:/bin"}

		output, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Equal(t, want+"\n", string(output))
	}

	require.NoError(t, remove())
	require.NoFileExists(t, file)
}
