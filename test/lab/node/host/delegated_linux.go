// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import "syscall"

// isDelegated reports whether systemd leaves a cgroup to the programs in it.
func isDelegated(group string) bool {
	for _, attribute := range []string{"user.delegate", "trusted.delegate"} { // systemd before 251 has only the latter
		value := make([]byte, 1)
		if n, err := syscall.Getxattr(group, attribute, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}
