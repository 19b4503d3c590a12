// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const (
	// Machines is the number of machines of a shoot that the driver's workers process at a time: the
	// default of --concurrent-syncs.
	Machines = 50
	// MemoryLimit is the environment variable with which the manifests limit the memory of the driver's processes. Near the
	// limit, Go's runtime collects garbage more often.
	MemoryLimit = "GOMEMLIMIT=384MiB"
	// MostMemory bounds the PeakMemory of the driver, or of preflight, with MemoryLimit and one hostile provider cluster, in
	// KiB. The worst cause 200 MiB.
	MostMemory = 320 << 10
	// ContainerLimit is the limit of the driver's containers in these manifests, in bytes.
	ContainerLimit = 512 << 20
)

// PeakMemory returns the peak memory of this process in KiB without that of its program file, or 0 if the kernel does not
// report it. wait(2) is unsuitable: its value for a child starts at the parent's.
func PeakMemory() int {
	peak, err := peakMemory(os.Getpid())
	if err != nil {
		return 0
	}

	return peak
}

// PeakMemoryOf returns the PeakMemory of another process, which must run.
func PeakMemoryOf(t *testing.T, pid int) int {
	t.Helper()

	peak, err := peakMemory(pid)
	require.NoError(t, err)

	return peak
}

func peakMemory(pid int) (kibibytes int, err error) {
	used, err := process.MemoryOf(pid)

	return int(used.Peak * 1024), err
}

// Contain makes a command run in a cgroup with a memory limit, in bytes, as a container does: the
// kernel kills it at the limit. If this process may not create cgroups, the command runs without.
func Contain(t *testing.T, command *exec.Cmd, limit int64) {
	t.Helper()

	group, err := newCgroup(limit)
	if err != nil {
		t.Logf("the memory is measured, and not limited: %v", err)

		return
	}

	t.Cleanup(func() { _ = os.Remove(group) }) // An empty folder of the kernel.

	command.Args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"), command.Path}, command.Args[1:]...)
	command.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
}

// newCgroup creates a cgroup below that of this process.
func newCgroup(limit int64) (group string, _ error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}

	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) //nolint:mnd // hierarchy, controllers and path, as in cgroups(7)

		parent := filepath.Join("/sys/fs/cgroup/memory", parts[2])
		file := "memory.limit_in_bytes"
		if parts[1] == "" {
			parent = filepath.Join("/sys/fs/cgroup", parts[2])
			file = "memory.max"
		}

		if parts[1] != "memory" && parts[1] != "" {
			continue
		}

		if group, err = os.MkdirTemp(parent, "hostile-"); err != nil {
			continue
		}

		if err = os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0o600); err == nil {
			return group, nil
		}

		_ = os.Remove(group) // It is empty.
	}

	return "", fmt.Errorf("no cgroup can be created: %w", err)
}
