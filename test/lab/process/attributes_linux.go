// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import "syscall"

// BoundToParent puts a child into its own process group, so that ctrl-C in a terminal reaches only
// the lab, and makes the kernel kill the child when the operating system thread that has started it
// exits, hence when the lab dies. The caller keeps that thread as long as the child runs.
func BoundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
