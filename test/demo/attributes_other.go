//go:build !linux

package main

import "syscall"

// boundToParent puts a child into a process group of its own. Only Linux can also bind its life to the demo's.
func boundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
