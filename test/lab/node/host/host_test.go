// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck_NamesTheRemedy(t *testing.T) {
	t.Parallel()
	everything := func(string) bool { return true }
	works := func() error { return nil }
	for name, test := range map[string]struct {
		reason string
		change func(m *machine)
		want   string // in the error; empty: none
	}{
		"able":          {reason: "nothing is missing", change: func(*machine) {}},
		"platform":      {reason: "QEMU's guests are for amd64", change: func(m *machine) { m.platform = "linux/arm64" }, want: "Linux on amd64"},
		"user":          {reason: "namespaces need root", change: func(m *machine) { m.user = 1000 }, want: "sudo"},
		"program":       {reason: "packages are named", change: func(m *machine) { m.has = func(p string) bool { return p != "gcc" } }, want: "apt-get install --no-install-recommends gcc"},
		"keyring":       {reason: "Ubuntu does not have it", change: func(m *machine) { m.has = func(p string) bool { return p != Keyring } }, want: "apt-get install --no-install-recommends debian-archive-keyring"},
		"no namespaces": {reason: "containers refuse them", change: func(m *machine) { m.isolate = func() error { return errors.New("unshare: not permitted") } }, want: "privileged container"},
		"no cgroups":    {reason: "the cause is named", change: func(m *machine) { m.cgroups = func() error { return errors.New("delegate it") } }, want: "delegate it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine{platform: "linux/amd64", has: everything, isolate: works, cgroups: works}
			test.change(&m)
			err := m.check()
			if test.want == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorIs(t, err, ErrMissing, test.reason)
			require.ErrorContains(t, err, test.want, test.reason)
		})
	}
}

// TestWorkflowInstallsWhatIsRequired requires the weekly workflow to install every package that Check would name.
func TestWorkflowInstallsWhatIsRequired(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../.github/workflows/weekly.yaml")
	require.NoError(t, err)
	_, job, found := strings.Cut(string(data), "\n  node:\n")
	require.True(t, found)
	for _, p := range programs {
		require.Subset(t, strings.Fields(job), strings.Fields(p.debian), p.name)
	}
	require.Contains(t, job, "LAB_NODES: required")
}

func TestCheckCgroups(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		files  map[string]string
		want   string // in the error; empty: none
	}{
		"version 1": {reason: "the groups are at fixed places", files: map[string]string{"memory/cgroup.procs": ""}},
		"version 2": {reason: "all controllers are delegated", files: map[string]string{
			"cgroup.controllers": "cpu io memory pids\n", "lab/cgroup.controllers": "cpu memory pids\n",
		}},
		"not delegated": {reason: "the own group has too few controllers", files: map[string]string{
			"cgroup.controllers": "cpu io memory pids\n", "lab/cgroup.controllers": "memory pids\n",
		}, want: "no controller cpu"},
		"none": {reason: "nothing is mounted", want: "mount cgroup2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			own := filepath.Join(t.TempDir(), "cgroup")
			require.NoError(t, os.WriteFile(own, []byte("0::/lab\n"), 0o600))
			for file, content := range test.files {
				require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(content), 0o600))
			}
			err := checkCgroups(root, own)
			if test.want == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorContains(t, err, test.want, test.reason)
		})
	}
}
