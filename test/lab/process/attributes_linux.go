package process

import "syscall"

// boundToParent puts a child into a process group of its own, so that ctrl-C in a terminal reaches the lab only, and has the
// kernel kill it when the lab dies.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
