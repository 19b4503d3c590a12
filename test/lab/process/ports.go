// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// The ports are below the kernel's range for outgoing connections (32768 and up on Linux).
// A port picked by the kernel could be taken by an outgoing connection between the check
// and the component's start.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePorts returns n different free ports of the loopback interface, for components that listen on
// them later. On Linux, neither a later call nor another process gets them before this process ends:
// some are written into manifests long before their components start, and several labs can start at once.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var ports []int
	const attempts = 1000
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if err := reserve(ctx, port); err == nil {
			ports = append(ports, port)
		} else if ctx.Err() != nil {
			return nil, fmt.Errorf("look for a free port: %w", err)
		}
	}
	return nil, fmt.Errorf("look for free ports: too few between %d and %d", firstPort, lastPort)
}
