// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsIn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		groups string
		want   bool
	}{
		"version 1": {reason: "one of the hierarchies suffices", groups: "5:memory:/system/lab-1-a/pod\n4:cpu:/\n", want: true},
		"version 2": {reason: "the group itself", groups: "0::/lab-1-a\n", want: true},
		"sibling":   {reason: "the name of another node begins likewise", groups: "0::/lab-1-ab/pod\n"},
		"ended":     {reason: "it has no file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := t.TempDir()
			if test.groups != "" {
				require.NoError(t, os.WriteFile(filepath.Join(process, "cgroup"), []byte(test.groups), 0o600))
			}
			require.Equal(t, test.want, isIn(process, "lab-1-a"), test.reason)
		})
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	process := t.TempDir()
	require.False(t, runs(process, "kubelet"), "it has ended")
	require.NoError(t, os.WriteFile(filepath.Join(process, "cmdline"), []byte("/opt/lab/kubelet\x00--config=virt-handler"), 0o600))
	require.True(t, runs(process, "kubelet"))
	require.False(t, runs(process, "virt-handler"), "it is an argument")
}

func TestRunning_OmitsChildren(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	var processes []string
	for _, p := range []struct{ pid, parent, program string }{
		{pid: "7", parent: "5", program: "/usr/bin/virt-launcher"},
		{pid: "8", parent: "7", program: "/usr/bin/virt-launcher"}, // forked, before exec
		{pid: "9", parent: "7", program: "/usr/bin/virtqemud"},
		{pid: "17", parent: "6", program: "/usr/bin/virt-launcher"}, // of another guest
	} {
		dir := filepath.Join(proc, p.pid)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cmdline"), []byte(p.program+"\x00--name=x"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tx\nPid:\t"+p.pid+"\nPPid:\t"+p.parent+"\nUid:\t0\n"), 0o600))
		processes = append(processes, dir)
	}
	processes = append(processes, filepath.Join(proc, "18")) // it has ended
	require.Equal(t, []string{filepath.Join(proc, "7"), filepath.Join(proc, "17")}, running(processes, "virt-launcher"))
}

func TestParseCapabilities(t *testing.T) {
	t.Parallel()
	own, err := parseCapabilities("Name:\tx\nCapEff:\t0000000000200001\nCapBnd:\t0\n")
	require.NoError(t, err)
	require.Equal(t, []string{"CAP_CHOWN", "CAP_SYS_ADMIN"}, own)
	_, err = parseCapabilities("Name:\tx\n")
	require.ErrorContains(t, err, "has no CapEff")
}
