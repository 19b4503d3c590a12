package process

import "syscall"

// boundToParent puts a child into its own process group, so that ctrl-C in a terminal reaches only
// the lab, and makes the kernel kill the child when the lab dies.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
