// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below the kernel's range for outgoing connections (32768 and up on Linux).
// A port picked by the kernel could be taken by an outgoing connection between the check
// and the component's start.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePorts returns n different ports of the loopback interface that are currently free.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var listen net.ListenConfig
	var ports []int
	var held []net.Listener // so that no port is found twice
	defer func() {
		for _, l := range held {
			_ = l.Close() // no data was sent or received on it
		}
	}()
	const attempts = 1000
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := listen.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("look for a free port: %w", err)
			}
			continue
		}
		held, ports = append(held, l), append(ports, port)
	}
	return nil, errors.New("look for free ports: too few between " + strconv.Itoa(firstPort) + " and " + strconv.Itoa(lastPort))
}
