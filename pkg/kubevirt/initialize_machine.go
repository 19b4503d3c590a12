// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

// InitializeMachine waits, for some seconds, until the machine is scheduled. A slow machine is not
// an error: machine-controller-manager repeats the call until GetMachineStatus no longer returns
// Uninitialized.
//
// Codes: ResourceExhausted (no provider node has enough free resources, or a quota is exceeded, for
// longer than a grace period), FailedPrecondition (the provider cluster lacks a prerequisite, the
// image cannot be imported, or the machine is not at its recorded address), PermissionDenied,
// DeadlineExceeded and Unavailable for other diagnosed causes; NotFound, InvalidArgument,
// Unauthenticated.
func (p *MachinePlugin) InitializeMachine(
	ctx context.Context, req *driver.InitializeMachineRequest,
) (resp *driver.InitializeMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), machineclass.KubeconfigSource{})
	}

	secret, err := p.secretWithKubeconfig(req.MachineClass, req.Secret)

	ctx, end := p.begin(ctx, "InitializeMachine", req.Machine, machineclass.SourceOf(req.MachineClass, secret))
	defer func() { err = end(err) }()

	if err != nil && !isAbandoned(req.Machine) {
		return nil, err
	}

	in, err := p.decodeObserve(req.Machine, req.MachineClass, secret)
	if err != nil {
		return nil, err
	}

	p.notifyObservers(req.MachineClass, secret)

	in.Image = machineclass.Image(req.MachineClass)

	machine, err := p.spi.InitializeMachine(ctx, in)
	if err != nil {
		return nil, err
	}

	return &driver.InitializeMachineResponse{
		ProviderID: machine.ProviderID,
		NodeName:   nodeName(machine),
		Addresses:  machine.Addresses,
	}, nil
}
