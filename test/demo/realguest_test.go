// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConsole(t *testing.T) {
	t.Parallel()
	logs := t.TempDir()
	d := &demo{lab: &lab{LogDir: logs}}
	require.Contains(t, d.console(), "not started")
	require.NoError(t, os.WriteFile(filepath.Join(logs, "console-worker-1.log"), []byte("\x1b[2J\r\n"), 0o600))
	require.Equal(t, "\n  console: (empty)", d.console())
	text := "1\n2\n3\n[\x1b[0;32m  OK  \x1b[0m] Started containerd\r\n\r\n\x1b[?25lworker login: "
	require.NoError(t, os.WriteFile(filepath.Join(logs, "console-worker-1.log"), []byte(text), 0o600))
	require.Equal(t, "\n  console:\n    2\n    3\n    [  OK  ] Started containerd\n    worker login:", d.console())
}

func TestRealClass(t *testing.T) {
	t.Parallel()
	data, err := (&demo{root: filepath.Join("..", "..")}).realClass()
	require.NoError(t, err)
	require.Contains(t, string(data), "sim.lab/guest: real")
	require.Contains(t, string(data), "replicas: 1\n")
	require.Contains(t, string(data), "  memory:\n    guest: 1Gi\n  virtualMachineTemplate:")
	require.NotContains(t, string(data), classZ2)
}

func TestInstallationLines(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "..", manifests, "userdata.yaml"))
	require.NoError(t, err)
	require.Len(t, installation.FindAllString(string(data), -1), 7, "the lines that install packages")
}
