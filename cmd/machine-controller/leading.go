// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
)

// leading starts the leader's background work on the first call to the driver:
// machine-controller-manager calls the driver only while it is the leader. Two replicas must
// neither evacuate nor count the same machines.
type leading struct {
	driver.Driver

	start func()
}

// whenLeading wraps the driver so that the first call to it starts the tasks.
func whenLeading(ctx context.Context, inner driver.Driver, tasks ...func(context.Context)) driver.Driver {
	return &leading{
		Driver: inner,
		start: sync.OnceFunc(func() {
			for _, run := range tasks {
				go run(ctx)
			}
		}),
	}
}

// ListMachines implements driver.Driver. It is the first call of a leader if Machines exist.
func (l *leading) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	l.start()

	return l.Driver.ListMachines(ctx, req)
}

// GetMachineStatus implements driver.Driver. It is the first call for each new Machine.
func (l *leading) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	l.start()

	return l.Driver.GetMachineStatus(ctx, req)
}
