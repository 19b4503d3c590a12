// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineaddress

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// recording is a driver that records the addresses in another driver's responses. It uses an
// annotation, because machine-controller-manager does not keep LastKnownState after a creation, and
// drops it after some errors.
type recording struct {
	driver.Driver

	recorder *Recorder
}

// Driver returns a driver that records the addresses that inner reports.
func (r *Recorder) Driver(inner driver.Driver) driver.Driver {
	return &recording{Driver: inner, recorder: r}
}

// CreateMachine implements driver.Driver. It does not record the address yet: right after this
// call, machine-controller-manager updates the Machine that it has read before the call, and a
// change in between would cause a conflict and another reconciliation.
func (d *recording) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	resp, err := d.Driver.CreateMachine(ctx, req)
	if resp == nil || req.Machine == nil {
		return resp, err
	}

	if address, told := addressIn(resp.LastKnownState); told {
		d.recorder.pending.Add(req.Machine.UID, address)

		resp.LastKnownState = ""
	}

	return resp, err
}

// InitializeMachine implements driver.Driver. machine-controller-manager calls it in the same
// reconciliation as CreateMachine, after its update, and does not write again in this
// reconciliation unless the call fails. That write then has a conflict, and the next reconciliation
// begins 200 ms later.
func (d *recording) InitializeMachine(ctx context.Context, req *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	if req.Machine != nil {
		d.recorder.settle(ctx, req.Machine)
	}

	return d.Driver.InitializeMachine(ctx, req)
}

// DeleteMachine implements driver.Driver. For a machine that was moved, the driver returns the address
// together with an error. It deletes the machine on the next call, which contains the recorded address.
func (d *recording) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	resp, err := d.Driver.DeleteMachine(ctx, req)
	if resp == nil || req.Machine == nil || req.Machine.UID == "" {
		return resp, err
	}

	address, told := addressIn(resp.LastKnownState)
	if !told {
		return resp, err
	}

	if failed := d.recorder.record(ctx, req.Machine, address); failed != nil {
		klog.FromContext(ctx).Error(failed, "A machine that was moved is not deleted until its address is recorded")
	}

	resp.LastKnownState = ""

	return resp, err
}

// addressIn returns the address that a driver reports. Data of another driver is not an address, and
// is passed on to machine-controller-manager.
func addressIn(lastKnownState string) (spi.Address, bool) {
	address, err := spi.DecodeAddress(lastKnownState)

	return address, err == nil
}

// settle records the pending address of a Machine. If that fails, the address stays pending: the
// machine's creation continues, and the next call tries again.
func (r *Recorder) settle(ctx context.Context, machine *v1alpha1.Machine) {
	address, pending := r.take(machine.UID)
	if !pending {
		return
	}

	if err := r.record(ctx, machine, address); err != nil {
		klog.FromContext(ctx).Error(err, "The address of a machine is not recorded yet")
		r.pending.Add(machine.UID, address)
	}
}

func (r *Recorder) take(machine types.UID) (spi.Address, bool) {
	value, pending := r.pending.Get(machine)
	if !pending {
		return spi.Address{}, false
	}

	r.pending.Remove(machine)
	address, ok := value.(spi.Address)

	return address, ok
}
