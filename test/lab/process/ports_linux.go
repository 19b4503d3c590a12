// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"syscall"
)

// reserve binds a socket to a port of the loopback interface and keeps it until this process ends.
// Without SO_REUSEADDR the bind fails if any other socket has the port. The option is set afterwards:
// while the socket does not listen, one that has the option, too, can listen on the port, and Go sets
// it on every listener (socket(7)).
func reserve(ctx context.Context, port int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		_ = syscall.Close(fd) // nothing was sent
		return os.NewSyscallError("bind", err)
	}
	return nil
}
