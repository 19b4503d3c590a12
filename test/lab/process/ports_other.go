// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// reserved has the ports that reserve has accepted.
var reserved sync.Map

// reserve returns nil if a port of the loopback interface is free, and accepts it once. Only Linux
// can also keep it from other processes.
func reserve(ctx context.Context, port int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	if err := listener.Close(); err != nil {
		return err
	}
	if _, taken := reserved.LoadOrStore(port, true); taken {
		return errors.New("reserved before")
	}
	return nil
}
