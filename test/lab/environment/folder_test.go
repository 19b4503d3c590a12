// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFolderLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lab")
	f, err := newFolder(path, false)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.data(), "x"), nil, 0o600))
	_, err = newFolder(path, false)
	require.ErrorContains(t, err, "another lab uses")
	require.NoError(t, f.remove(false))
	require.NoDirExists(t, path)
	require.NoError(t, f.remove(false), "a second removal is not an error")
}

func TestFolderKeepsLogs(t *testing.T) {
	t.Parallel()
	f, err := newFolder(filepath.Join(t.TempDir(), "lab"), false)
	require.NoError(t, err)
	require.NoError(t, f.remove(true))
	require.NoDirExists(t, f.data())
	require.DirExists(t, f.logs())
}

func TestFolderOfTheCallerKeepsTheCallersFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	mine := filepath.Join(path, "mine")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	f, err := newFolder(path, false)
	require.NoError(t, err)
	require.NoError(t, f.remove(false))
	require.FileExists(t, mine)
}

func TestReaperRemovesTheDataWhenTheOwnerIsGone(t *testing.T) {
	t.Parallel()
	f, err := newFolder(filepath.Join(t.TempDir(), "lab"), false)
	require.NoError(t, err)
	require.NoError(t, f.pipe.Close(), "as the kernel does when the owner is killed")
	require.Eventually(t, func() bool {
		_, err := os.Stat(f.data())
		return os.IsNotExist(err)
	}, time.Minute, 10*time.Millisecond)
	require.DirExists(t, f.logs())
	require.NoError(t, f.reaper.Wait())
	require.NoError(t, f.owner.Close())
}

func TestSweep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		reason     string
		ownerFile  bool
		locked     bool
		at         time.Time // time of the sweep
		data, logs bool      // expected to remain
	}{
		"alive":     {reason: "a living lab keeps everything", ownerFile: true, locked: true, at: now.Add(48 * time.Hour), data: true, logs: true},
		"killed":    {reason: "the data of a killed lab is removed, and its logs are kept", ownerFile: true, at: now, logs: true},
		"long ago":  {reason: "after a day the logs are removed too", ownerFile: true, at: now.Add(48 * time.Hour)},
		"newborn":   {reason: "a lab that is just being created has no owner file yet", at: now, data: true, logs: true},
		"check":     {reason: "a check of the kernel that was killed has no owner file, and goes with the logs", at: now.Add(48 * time.Hour)},
		"half made": {reason: "a lab that still has no owner file was killed during its creation", at: now.Add(2 * time.Minute), logs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			f := &folder{path: filepath.Join(parent, "lab")}
			require.NoError(t, os.MkdirAll(f.data(), 0o700))
			require.NoError(t, os.MkdirAll(f.logs(), 0o700))
			if test.ownerFile {
				owner, err := os.Create(filepath.Join(f.path, ownerFile))
				require.NoError(t, err)
				defer owner.Close() //nolint:errcheck // opened only for its lock
				if test.locked {
					require.NoError(t, tryLock(owner))
				}
			}
			require.NoError(t, sweep(parent, test.at))
			for dir, want := range map[string]bool{f.data(): test.data, f.logs(): test.logs} {
				_, err := os.Stat(dir)
				require.Equal(t, want, err == nil, "%s: %s", test.reason, dir)
			}
		})
	}
}

func TestReapIsAValidScript(t *testing.T) {
	t.Parallel()
	require.NoError(t, exec.CommandContext(t.Context(), "/bin/sh", "-n", "-c", reap).Run())
}

// TestReap_Cgroups requires that the lab's cgroups are removed with their processes, and no others.
func TestReap_Cgroups(t *testing.T) {
	t.Parallel()
	cgroups := t.TempDir()
	inGroup := func(group string) *exec.Cmd {
		process := exec.CommandContext(t.Context(), "sleep", "600")
		require.NoError(t, process.Start())
		require.NoError(t, os.MkdirAll(filepath.Join(cgroups, group), 0o750))
		pids := fmt.Sprintf("0\n%d\n", process.Process.Pid) // 0 is a process that the reaper cannot see
		require.NoError(t, os.WriteFile(filepath.Join(cgroups, group, "cgroup.procs"), []byte(pids), 0o600))
		return process
	}
	left := inGroup("memory/lab-dead-a/pod")
	other := inGroup("memory/lab-alive-a")

	require.NoError(t, os.MkdirAll(filepath.Join(cgroups, "cpu/system/lab-dead-b/pod"), 0o750))

	command := reaper(t.TempDir(), cgroupPrefix("/labs/dead"), cgroups)
	require.NoError(t, command.Start())
	require.EqualError(t, left.Wait(), "signal: killed")
	require.NoError(t, os.RemoveAll(filepath.Join(cgroups, "memory/lab-dead-a")), "as the kernel does, without the files")
	require.NoError(t, command.Wait())
	require.NoDirExists(t, filepath.Join(cgroups, "cpu/system/lab-dead-b"))
	require.DirExists(t, filepath.Join(cgroups, "cpu/system"))
	require.DirExists(t, filepath.Join(cgroups, "memory/lab-alive-a"))
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "it is alive")
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
}
