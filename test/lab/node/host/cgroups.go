// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// controllers are those without which kubelet does not start.
var controllers = []string{"cpu", "memory", "pids"}

// ProgramsGroup is the cgroup of version 2 into which the lab moves the processes of its own, so that this one can have the nodes' groups:
// a group with processes has no controllers to give to those below it.
const ProgramsGroup = "lab-programs"

// delegate is the remedy of a group that the lab may not use.
const delegate = "run the command in a group of its own with all controllers: systemd-run --scope --property=Delegate=yes COMMAND"

// checkCgroups checks the file system of cgroups at root, for a process whose groups are in the file own. Of version 2, it must be the own
// group that the lab may change (ProgramsGroup).
func checkCgroups(root, own string, delegated func(group string) bool) error {
	if _, err := os.Stat(filepath.Join(root, "memory", "cgroup.procs")); err == nil { // version 1
		return checkWritable(filepath.Join(root, "memory"))
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		return errors.New("it has no cgroups: mount cgroup2 at /sys/fs/cgroup")
	}
	data, err := os.ReadFile(filepath.Clean(own))
	if err != nil {
		return fmt.Errorf("read the own cgroup: %w", err)
	}
	group := filepath.Join(root, strings.TrimPrefix(strings.TrimSpace(string(data)), "0::"))
	available, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("the own cgroup is not below /sys/fs/cgroup: %w; start the container with a cgroup namespace of its own", err)
	}
	for _, controller := range controllers {
		if !slices.Contains(strings.Fields(string(available)), controller) {
			return fmt.Errorf("the cgroup %s has no controller %s: %s", group, controller, delegate)
		}
	}
	// The group of a container is the root of its namespace. A lab may start another one.
	if group != root && filepath.Base(group) != ProgramsGroup && !delegated(group) {
		return fmt.Errorf("the cgroup %s belongs to systemd, which has not delegated it: %s", group, delegate)
	}
	return checkWritable(group)
}

// checkWritable reports whether groups can be made in a folder, by making one. The next check removes that of a killed one.
func checkWritable(group string) error {
	made := filepath.Join(group, "lab-check")
	if err := os.Mkdir(made, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("no cgroup can be made in %s: %w; in a container, mount /sys/fs/cgroup writable", group, err)
	}
	if err := os.Remove(made); err != nil && !errors.Is(err, os.ErrNotExist) { // another check may have removed it
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}
