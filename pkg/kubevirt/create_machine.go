// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// CreateMachine creates the machine's Secrets and VirtualMachine, or adopts those that an earlier
// call created. It does not wait for the machine to run. LastKnownState of the response is the
// machine's address, which the Machine records.
//
// Codes: InvalidArgument (the class, its spec or its Secret is invalid, or KubeVirt refuses the
// VirtualMachine), AlreadyExists (an object of that name is not managed by this driver), Aborted (a
// machine of this name is being deleted), ResourceExhausted (quota), PermissionDenied,
// Unauthenticated, FailedPrecondition (the namespace, KubeVirt or CDI is missing) and Unavailable.
func (p *MachinePlugin) CreateMachine(
	ctx context.Context, req *driver.CreateMachineRequest,
) (resp *driver.CreateMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), machineclass.KubeconfigSource{})
	}

	secret, err := p.secretWithKubeconfig(req.MachineClass, req.Secret)

	ctx, end := p.begin(ctx, "CreateMachine", req.Machine, machineclass.SourceOf(req.MachineClass, secret))
	defer func() { err = end(err) }()

	if err != nil {
		return nil, err
	}

	in, err := machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, secret, p.options.Allowed)
	if err != nil {
		return nil, err
	}

	p.notifyObservers(req.MachineClass, secret)

	in.Report = p.reportFor(req.Machine)

	machine, err := p.spi.CreateMachine(ctx, in)
	if err != nil {
		return nil, err
	}

	return &driver.CreateMachineResponse{
		ProviderID:     machine.ProviderID,
		NodeName:       nodeName(machine),
		Addresses:      machine.Addresses,
		LastKnownState: lastKnownState(ctx, machine),
	}, nil
}

// lastKnownState returns the address for the Machine to record. An address with a URL that is too
// long is not recorded: the driver then looks for the machine at the address of its class.
func lastKnownState(ctx context.Context, machine *spi.Machine) string {
	if err := machine.Address.Validate(); err != nil {
		klog.FromContext(ctx).Info("Not recording the address of a machine", "machine", machine.Name, "reason", err.Error())

		return ""
	}

	return machine.Address.Encode()
}

// nodeName returns the name of the machine's Node. It is the guest's hostname, which is the name of
// the VirtualMachine.
func nodeName(machine *spi.Machine) string {
	return machine.Name
}
