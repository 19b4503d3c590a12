// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// GetMachineStatus checks whether the machine exists and has been scheduled.
//
// Codes: NotFound (no VirtualMachine of this name is managed by this driver), Uninitialized (not
// scheduled yet, or its guest has failed; the response is returned too), Aborted (an earlier machine of this name is being
// deleted), FailedPrecondition (it is not at its recorded address), InvalidArgument,
// PermissionDenied, Unauthenticated, Unavailable.
func (p *MachinePlugin) GetMachineStatus(
	ctx context.Context, req *driver.GetMachineStatusRequest,
) (resp *driver.GetMachineStatusResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), machineclass.KubeconfigSource{})
	}

	secret, err := p.secretWithKubeconfig(req.MachineClass, req.Secret)

	ctx, end := p.begin(ctx, "GetMachineStatus", req.Machine, machineclass.SourceOf(req.MachineClass, secret))
	defer func() { err = end(err) }()

	if err != nil && !isAbandoned(req.Machine) {
		return nil, err
	}

	in, err := p.decodeObserve(req.Machine, req.MachineClass, secret)
	if err != nil {
		return nil, err
	}

	p.notifyObservers(req.MachineClass, secret)

	machine, err := p.spi.GetMachineStatus(ctx, in)
	p.measure(req.Machine, machine, err)

	return statusResponse(machine), err
}

// statusResponse returns nil for nil. machine-controller-manager dereferences the response that
// comes with Uninitialized.
func statusResponse(machine *spi.Machine) *driver.GetMachineStatusResponse {
	if machine == nil {
		return nil
	}

	return &driver.GetMachineStatusResponse{
		ProviderID: machine.ProviderID,
		NodeName:   nodeName(machine),
		Addresses:  machine.Addresses,
	}
}
