// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
)

// outside returns a command that runs in the namespaces of this machine, which the suite has left: those of the process that waits for it.
func outside(ctx context.Context, t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()

	folder, err := os.Getwd()
	require.NoError(t, err)

	own := []string{fmt.Sprint("--target=", os.Getppid()), "--net", "--mount", "--cgroup", "--wd=" + folder, program}

	return exec.CommandContext(ctx, "nsenter", append(own, args...)...)
}

// state prints what a lab could change on this machine: file systems, interfaces with their addresses and routes, filters, sysctls except for
// counters, the merging of memory, and the limits and controllers of the own cgroups and those above, in which it makes others. Its arguments are
// the root folder of nodes and the cgroup into which a lab moves its processes for good.
const state = `
echo "mounts $(cat /proc/self/mounts)"
echo "interfaces $(cut -s -d: -f1 /proc/net/dev)"
echo "network $(cat /proc/net/fib_trie /proc/net/if_inet6)"
echo "filters $(chroot "$1" /usr/sbin/nft --stateless list ruleset)"
cd /proc/sys
find . -type f -perm -u=r ! -path './kernel/random/*' ! -path './fs/*-nr' ! -path './fs/*-state' ! -path './fs/quota/*' ! -path './kernel/ns_last_pid' \
  ! -path './kernel/pty/nr' ! -path './kernel/perf_*' ! -path './kernel/hung_task_detect_count' ! -path './net/netfilter/nf_conntrack_count' \
  -exec grep -s -H '' {} + | sort
grep -s -H '' /sys/kernel/mm/ksm/run
while IFS=: read -r _ hierarchy group; do
  while :; do
    [ "${group##*/}" = "$2" ] || find "/sys/fs/cgroup/$hierarchy$group" -maxdepth 1 \( -name '*.max' -o -name '*.high' -o -name '*.weight' \
      -o -name '*limit_in_bytes' -o -name 'cpu.shares' -o -name 'cpu.cfs_*_us' -o -name 'cpuset.cpus' -o -name 'cpuset.mems' \
      -o -name cgroup.clone_children -o -name cgroup.subtree_control -o -name devices.list \) -exec grep -s -H '' {} + 2> /dev/null | sort
    [ -n "${group#/}" ] || break
    group=${group%/*}
  done
done < /proc/self/cgroup
`

// stateOfMachine returns the lines that state prints.
func stateOfMachine(t *testing.T) []string {
	t.Helper()

	folder, err := root.Ensure(t.Context(), io.Discard)
	require.NoError(t, err)

	output, err := outside(t.Context(), t, "sh", "-c", state, "sh", folder, host.ProgramsGroup).Output()
	require.NoError(t, err)

	return slices.Collect(strings.Lines(string(output)))
}

// program is a process, which another one with the same number is not.
type program struct{ pid, start, name string }

// programsOf returns the programs that a process has started, directly or not.
func programsOf(t *testing.T, pid int) []program {
	t.Helper()

	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)

	children := map[string][]program{}

	for _, file := range stats {
		if parent, found, alive := parseStat(file); alive {
			children[parent] = append(children[parent], found)
		}
	}

	found := children[fmt.Sprint(pid)]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}

	return found
}

// parseStat returns the parent of a process and what identifies it, from its file stat.
func parseStat(file string) (parent string, found program, alive bool) {
	stat, err := os.ReadFile(filepath.Clean(file))
	if err != nil { // it has just ended
		return "", program{}, false
	}

	const parentField, startField = 1, 19 // behind the name, which may contain spaces

	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // empty if it has just ended
	name, _, _ := strings.Cut(string(command), "\x00")

	return fields[parentField], program{
		pid:   filepath.Base(filepath.Dir(file)),
		start: fields[startField],
		name:  filepath.Base(name),
	}, fields[0] != "Z"
}

// isAlive reports whether a process has not ended.
func (p program) isAlive() bool {
	_, found, alive := parseStat("/proc/" + p.pid + "/stat")

	return alive && found.start == p.start
}

// cgroupsWith returns the cgroups of this machine whose names begin with a prefix.
func cgroupsWith(prefix string) (found []string) {
	// Cgroups of other programs come and go while this walks.
	_ = filepath.WalkDir(fmt.Sprintf("/proc/%d/root/sys/fs/cgroup", os.Getppid()), func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir
		case entry.IsDir() && strings.HasPrefix(entry.Name(), prefix):
			found = append(found, path)

			return fs.SkipDir
		default:
			return nil
		}
	})

	return found
}

// awaitLine reads until a line contains a text.
func awaitLine(t *testing.T, from io.Reader, text string) {
	t.Helper()

	lines := bufio.NewScanner(from)
	for lines.Scan() {
		t.Log(lines.Text())

		if strings.Contains(lines.Text(), text) {
			go func() { _, _ = io.Copy(io.Discard, from) }() // so that the lab can go on

			return
		}
	}

	require.Fail(t, "the lab has ended", "%v", lines.Err())
}
