// Package driverrpc carries machine-controller-manager's driver interface over gRPC: a Server turns
// any driver.Driver into a MachineDriver of api/driver/v1, and a Client turns any MachineDriver
// into a driver.Driver. cmd/mcm-kubevirt runs the server, cmd/machine-controller the client.
// Requests, responses, codes and messages arrive unchanged. The client adds two errors of its own:
// the driver did not answer, or its response lacks a field that machine-controller-manager reads.
// The package must not depend on the implementation of a driver, nor on KubeVirt.
package driverrpc

import (
	"time"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// deadlines bounds the calls, for drivers that hang: machine-controller-manager sets no deadlines.
// Each is well above the duration of a call that retries every request to the provider cluster as
// often as possible; DeleteMachine waits up to 5 minutes for the guest.
var deadlines = map[string]time.Duration{
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
	// two; that leaves 1 MiB for the Machine and the class, which have kilobytes.
	maxRequest = 3 << 20
	// maxResponse bounds a response, in bytes. A list of a hundred thousand machines has this size.
	maxResponse = 16 << 20

	// pingEvery is how long a connection may be silent before an end pings the
	// other one, and pingTimeout bounds the wait for the reply. Both ends send
	// pings: calls are silent for minutes.
	pingEvery   = 30 * time.Second
	pingTimeout = 10 * time.Second
)
