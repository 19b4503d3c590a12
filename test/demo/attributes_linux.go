// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// boundToParent puts a child into its own process group, so that ctrl-C in a terminal reaches
// only the demo, which then stops the child in an orderly way. If the demo is killed, the kernel
// sends the child SIGTERM.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
