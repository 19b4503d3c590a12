// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"syscall"
)

// CheckInotify returns an error with the remedy if this user cannot have so many more instances of inotify: each program that reads its
// certificates again when they change needs some, and panics without. Linux allows 128 per user by default.
func CheckInotify(instances int) error {
	return checkInotify(instances, func() (int, error) { return syscall.InotifyInit1(syscall.IN_CLOEXEC) })
}

func checkInotify(instances int, open func() (int, error)) error {
	opened := make([]int, 0, instances)

	defer func() {
		for _, fd := range opened {
			_ = syscall.Close(fd) // nothing was written
		}
	}()

	for range instances {
		fd, err := open()
		if err != nil {
			return fmt.Errorf("the lab needs %d instances of inotify, and this user can have only %d more: %w; end other programs, or allow more: "+
				"sysctl -w fs.inotify.max_user_instances=1024", instances, len(opened), err)
		}

		opened = append(opened, fd)
	}

	return nil
}
