// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "syscall"

// BoundToParent puts a child into its own process group. Only Linux can also
// kill it when the lab dies.
func BoundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
