package main

import "syscall"

// boundToParent puts a child into a process group of its own, so that ctrl-C in a terminal reaches the demo only, which then
// ends the child in order. Should the demo be killed, the kernel asks the child to end.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
