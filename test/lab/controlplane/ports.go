package controlplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// loopback is the address every listener of the lab uses.
const loopback = "127.0.0.1"

// The ports are chosen below the kernel's range for outgoing connections (32768 and up on Linux): a port that the kernel
// picks for us could be taken by somebody's outgoing connection between our check and the component's start.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePorts returns n different ports on which nobody listens now.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var listen net.ListenConfig
	var ports []int
	var held []net.Listener // so that no port is found twice
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was sent or received on it
		}
	}()
	const attempts = 1000
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := listen.Listen(ctx, "tcp", address(port))
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

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
