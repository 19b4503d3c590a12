// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// controllers are those without which kubelet does not start.
var controllers = []string{"cpu", "memory", "pids"}

// checkCgroups checks the file system of cgroups at root, for a process whose groups are in the file own.
func checkCgroups(root, own string) error {
	if _, err := os.Stat(filepath.Join(root, "memory", "cgroup.procs")); err == nil { // version 1
		return checkWritable(filepath.Join(root, "memory"))
	}
	available, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return errors.New("it has no cgroups: mount cgroup2 at /sys/fs/cgroup")
	}
	data, err := os.ReadFile(filepath.Clean(own))
	if err != nil {
		return fmt.Errorf("read the own cgroup: %w", err)
	}
	group := filepath.Join(root, strings.TrimPrefix(strings.TrimSpace(string(data)), "0::"))
	if data, err := os.ReadFile(filepath.Join(group, "cgroup.controllers")); err == nil {
		available = data
	}
	for _, controller := range controllers {
		if !strings.Contains(" "+strings.TrimSpace(string(available))+" ", " "+controller+" ") {
			return fmt.Errorf("the cgroup %s has no controller %s: delegate it, such as with systemd-run --scope --property=Delegate=yes", group, controller)
		}
	}
	return checkWritable(group)
}

// checkWritable reports whether groups can be made in a folder, by making one.
func checkWritable(group string) error {
	made, err := os.MkdirTemp(group, "lab-check-")
	if err != nil {
		return fmt.Errorf("no cgroup can be made in %s: %w; in a container, mount /sys/fs/cgroup writable", group, err)
	}
	return os.Remove(made)
}
