// Package driverrpc carries machine-controller-manager's driver interface over gRPC: a Server makes any driver.Driver a MachineDriver
// of api/driver/v1, a Client makes any MachineDriver a driver.Driver. cmd/mcm-kubevirt runs the one, cmd/machine-controller the
// other. Requests, responses, codes and texts arrive as they were sent. The client adds two errors of its own: the driver did not
// answer, or its answer lacks what machine-controller-manager reads of it. The package must not know what a driver does, nor KubeVirt.
package driverrpc

import (
	"time"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// deadlines bound the calls: machine-controller-manager sets none. They are for drivers that hang. Each is well above what a call takes
// whose every request to the provider cluster is retried to the last; DeleteMachine waits up to 5 minutes for the guest.
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
	// maxRequest bounds a request, in bytes. A Secret has up to 1 MiB, and a class may refer to two; that leaves 1 MiB for the Machine and
	// the class, which have kilobytes.
	maxRequest = 3 << 20
	// maxResponse bounds a response, in bytes: the list of a hundred thousand machines.
	maxResponse = 16 << 20

	// pingEvery is how long a connection may be silent until an end asks whether the other one is there, and pingTimeout how long
	// the answer may take. Both ends ask: calls are silent for minutes.
	pingEvery   = 30 * time.Second
	pingTimeout = 10 * time.Second
)
