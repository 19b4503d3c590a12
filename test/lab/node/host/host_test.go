// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// TestWorkflowOutlivesSuites requires that a suite that hangs ends before the weekly workflow does, and says where.
func TestWorkflowOutlivesSuites(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../.github/workflows/weekly.yaml")
	require.NoError(t, err)
	_, job, found := strings.Cut(string(data), "\n  node:\n")
	require.True(t, found)
	minutes := func(pattern string) int {
		match := regexp.MustCompile(pattern).FindStringSubmatch(job)
		require.NotNil(t, match, pattern)
		number, err := strconv.Atoi(match[1])
		require.NoError(t, err)
		return number
	}
	const suites, demo = 2, 60
	require.Greater(t, minutes(`timeout-minutes: (\d+)`), suites*minutes(`NODE_TIMEOUT: (\d+)m`)+demo)
}

func TestCheckCgroups(t *testing.T) {
	t.Parallel()
	const all, few = "cpu io memory pids\n", "memory pids\n"
	for name, test := range map[string]struct {
		reason    string
		own       string            // the process' group
		available map[string]string // the controllers of groups; nil: version 1 or none
		delegated bool
		version1  bool
		want      string // in the error; empty: none
	}{
		"version 1":    {reason: "the groups are at fixed places", version1: true},
		"delegated":    {reason: "systemd leaves the group to the lab", own: "/run.scope", available: map[string]string{"": all, "run.scope": all}, delegated: true},
		"container":    {reason: "its group is the root of its namespace, and is its own", own: "/", available: map[string]string{"": all}},
		"lab in a lab": {reason: "the outer one has moved it", own: "/" + ProgramsGroup, available: map[string]string{"": all, ProgramsGroup: all}},
		"session":      {reason: "a login's processes are not the lab's to move", own: "/session.scope", available: map[string]string{"": all, "session.scope": all}, want: "not delegated it: run the command in a group of its own"},
		"too few":      {reason: "the parent has not enabled all controllers", own: "/run.scope", available: map[string]string{"": all, "run.scope": few}, delegated: true, want: "no controller cpu"},
		"small root":   {reason: "the container's parent has not enabled all controllers", own: "/", available: map[string]string{"": few}, want: "no controller cpu"},
		"other mount":  {reason: "/proc names a group that the container does not see", own: "/docker/1", available: map[string]string{"": all}, want: "cgroup namespace of its own"},
		"none":         {reason: "nothing is mounted", own: "/", want: "mount cgroup2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			own := filepath.Join(t.TempDir(), "cgroup")
			require.NoError(t, os.WriteFile(own, []byte("0::"+test.own+"\n"), 0o600))
			for group, controllers := range test.available {
				require.NoError(t, os.MkdirAll(filepath.Join(root, group), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(root, group, "cgroup.controllers"), []byte(controllers), 0o600))
			}
			if test.version1 {
				require.NoError(t, os.MkdirAll(filepath.Join(root, "memory"), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(root, "memory", "cgroup.procs"), nil, 0o600))
			}
			err := checkCgroups(root, own, func(string) bool { return test.delegated })
			if test.want == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorContains(t, err, test.want, test.reason)
		})
	}
}

// TestCheckWritable_LeavesNothing requires that also a group of a check that was killed is removed.
func TestCheckWritable_LeavesNothing(t *testing.T) {
	t.Parallel()
	group := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(group, "lab-check"), 0o750))
	require.NoError(t, checkWritable(group))
	left, err := os.ReadDir(group)
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorContains(t, checkWritable(filepath.Join(group, "none")), "mount /sys/fs/cgroup writable")
}

func TestFreeDisk(t *testing.T) {
	t.Parallel()
	free, err := FreeDisk(filepath.Join(t.TempDir(), "not", "yet"))
	require.NoError(t, err)
	require.NotZero(t, free)
}

func TestCheckDisk(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkDisk("/cache", leastDisk))
	err := checkDisk("/cache", leastDisk-1)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "8 GiB of disk in /cache, where 8191 MiB are free; make room")
}
