// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package driverrpc provides machine-controller-manager's driver interface over gRPC: a Server
// serves any driver.Driver as a MachineDriver of api/driver/v1, and a Client is a driver.Driver
// that calls any MachineDriver. cmd/mcm-kubevirt runs the server, and cmd/machine-controller the
// client. Requests, responses, machine codes and messages arrive unchanged. The client adds two
// errors of its own: for a driver that does not respond, and for a response that
// machine-controller-manager cannot handle. The package must not depend on the implementation of a
// driver, nor on KubeVirt.
package driverrpc

import (
	"time"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// timeouts bounds the calls to a driver that hangs: machine-controller-manager sets no deadlines.
// Each is well above the duration of a call that retries every request to the provider cluster as
// often as possible. DeleteMachine waits up to 5 minutes for the guest to shut down.
var timeouts = map[string]time.Duration{
	driverv1.MachineDriver_CreateMachine_FullMethodName:     5 * time.Minute,
	driverv1.MachineDriver_InitializeMachine_FullMethodName: 5 * time.Minute,
	driverv1.MachineDriver_DeleteMachine_FullMethodName:     10 * time.Minute,
	driverv1.MachineDriver_GetMachineStatus_FullMethodName:  2 * time.Minute,
	driverv1.MachineDriver_ListMachines_FullMethodName:      5 * time.Minute,
	driverv1.MachineDriver_GetVolumeIDs_FullMethodName:      30 * time.Second,
	driverv1.MachineDriver_GetInfo_FullMethodName:           30 * time.Second,
}

const (
	// maxRequest bounds a request, in bytes. A Secret has up to 1 MiB, and a class may refer to
	// two. This leaves 1 MiB for the Machine and the class, which take a few KiB.
	maxRequest = 3 << 20
	// maxResponse bounds a response, in bytes: the size of a list of a hundred thousand machines.
	maxResponse = 16 << 20

	// pingInterval is the idle time after which one end of a connection pings the other one, and
	// pingTimeout bounds the wait for the reply. Both ends send pings, because a call may cause no
	// traffic for minutes.
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
)
