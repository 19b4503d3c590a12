// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
)

func TestMoveProcesses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason  string
		files   map[string]string
		written string // the controller that is enabled last
		want    string // in the error; empty: none
	}{
		"empty":   {reason: "no process is left in the group", files: map[string]string{"cgroup.type": "domain", "cgroup.procs": "", "cgroup.controllers": "cpu memory", "cgroup.subtree_control": "cpu"}, written: "+memory"},
		"root":    {reason: "the machine's root may have processes", files: map[string]string{"cgroup.procs": "1\n", "cgroup.controllers": "cpu", "cgroup.subtree_control": ""}, written: "+cpu"},
		"enabled": {reason: "nothing is written that is already so", files: map[string]string{"cgroup.procs": "1\n", "cgroup.controllers": "cpu", "cgroup.subtree_control": "cpu"}, written: "cpu"},
		"busy":    {reason: "a file that is no group keeps its processes", files: map[string]string{"cgroup.type": "domain", "cgroup.procs": "1\n"}, want: "have started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := t.TempDir()
			for file, text := range test.files {
				require.NoError(t, os.WriteFile(filepath.Join(group, file), []byte(text), 0o600))
			}
			err := moveProcesses(group)
			if test.want != "" {
				require.ErrorContains(t, err, test.want, test.reason)
				moved, err := os.ReadFile(filepath.Join(group, host.ProgramsGroup, "cgroup.procs"))
				require.NoError(t, err)
				require.Equal(t, "1", string(moved))
				return
			}
			require.NoError(t, err, test.reason)
			enabled, err := os.ReadFile(filepath.Join(group, "cgroup.subtree_control"))
			require.NoError(t, err)
			require.Equal(t, test.written, string(enabled), test.reason)
		})
	}
}
