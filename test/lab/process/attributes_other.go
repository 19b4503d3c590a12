//go:build !linux

package process

import "syscall"

// BoundToParent puts a child into its own process group. Only Linux can also
// kill it when the lab dies.
func BoundToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
