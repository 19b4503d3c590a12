// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
)

const cgroups = "/sys/fs/cgroup"

// hasCgroup2 reports whether cgroups are of version 2. In a mixture, the controllers are of version 1.
func hasCgroup2() bool {
	_, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers"))
	return err == nil
}

// moveIntoGroup makes room for the groups of nodes in the group of this process, which is the root of its namespace: runc makes them in the
// group above its own, and enables controllers from the root on, which is no longer the machine's.
func moveIntoGroup() error {
	if err := unix.Mount("cgroup2", cgroups, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroup2: %w", err)
	}
	return moveProcesses(cgroups)
}

// moveProcesses moves all processes of a group into one below it, and enables its controllers for the groups below.
func moveProcesses(group string) error {
	if _, err := os.Stat(filepath.Join(group, "cgroup.type")); err != nil { // the root of the machine, which may have processes
		return enableControllers(group)
	}
	programs := filepath.Join(group, host.ProgramsGroup)
	if err := os.Mkdir(programs, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create group: %w", err)
	}
	const attempts = 10 // processes that start meanwhile are in the group of their parents
	for range attempts {
		left, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			return fmt.Errorf("list the processes of the group: %w", err)
		}
		if len(left) == 0 {
			return enableControllers(group)
		}
		for _, pid := range strings.Fields(string(left)) {
			err := os.WriteFile(filepath.Join(programs, "cgroup.procs"), []byte(pid), 0o600)
			if err != nil && !errors.Is(err, syscall.ESRCH) { // it has just ended
				return fmt.Errorf("move process %s: %w", pid, err)
			}
		}
	}
	return errors.New("processes have started in it all the time")
}

// enableControllers enables those controllers of a group for the groups below that are not enabled yet.
func enableControllers(group string) error {
	file := filepath.Join(group, "cgroup.subtree_control")
	available, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list controllers: %w", err)
	}
	enabled, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("list enabled controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(available)) {
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("enable controller %s: %w", controller, err)
		}
	}
	return nil
}
