// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestShell sources the file in a real shell. The paths contain characters that need quoting.
func TestShell(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's a $HOME")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	program := func(name string) string {
		path := filepath.Join(dir, name)
		script := `#!/bin/sh
echo "` + name + ` $(sed -n 's/^ *namespace: //p' "$KUBECONFIG") $# $2"
`
		require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
		return path
	}
	kubeconfig := filepath.Join(dir, "admin")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
	}, kubeconfig))
	s := store{folder: dir, name: "x"}
	st := &state{
		Name:               "x",
		ControlKubeconfig:  kubeconfig,
		ProviderKubeconfig: kubeconfig,
		Kubectl:            program("kubectl"),
		Shoot:              &shootState{Namespace: "shoot", ProviderNamespace: "machines", SidecarKubeconfig: filepath.Join(dir, "sidecar")},
	}
	require.NoError(t, s.saveShell(st, program("tool")))
	for command, want := range map[string]string{
		"control":      "kubectl shoot 2 a b",
		"target":       "kubectl shoot 2 a b",
		"provider":     "kubectl machines 2 a b",
		"mcm-kubevirt": "tool shoot 2 a b",
	} {
		output, err := exec.CommandContext(t.Context(), "bash", "-euc", `source "$1"; "$2" get "a b"`, "bash", st.Shell, command).CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Equal(t, want+"\n", string(output))
	}
	require.NoError(t, s.remove())
	require.NoFileExists(t, st.Shell, "it is removed with the lab")
}
