package kubevirt

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// CreateMachine creates the machine's Secret and VirtualMachine, or adopts this machine's own. It does not wait for the machine
// to run. LastKnownState of the response is the machine's address, for the Machine to record.
//
// Codes: InvalidArgument (the class, its spec or its Secret is faulty, or KubeVirt refuses the VirtualMachine), AlreadyExists
// (the name is taken by somebody else's object), Aborted (a machine of this name is being deleted), ResourceExhausted (quota),
// PermissionDenied, Unauthenticated, FailedPrecondition (the namespace, KubeVirt or CDI is missing) and Unavailable.
func (p *MachinePlugin) CreateMachine(
	ctx context.Context, req *driver.CreateMachineRequest,
) (resp *driver.CreateMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), "")
	}

	ctx, end := p.begin(ctx, "CreateMachine", req.Machine, machineclass.SourceOf(req.MachineClass, req.Secret))
	defer func() { err = end(err) }()

	in, err := machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, req.Secret, p.options.Allowed)
	if err != nil {
		return nil, err
	}

	p.seen(req.MachineClass, req.Secret)

	in.Report = p.journal.reportFor(req.Machine)

	machine, err := p.spi.CreateMachine(ctx, in)
	if err != nil {
		return nil, err
	}

	return &driver.CreateMachineResponse{
		ProviderID:     machine.ProviderID,
		NodeName:       nodeName(machine),
		Addresses:      machine.Addresses,
		LastKnownState: recordOf(ctx, machine),
	}, nil
}

// recordOf returns what the Machine is to record of its address. A URL that is too long is not recorded: then the machine is looked for
// wherever its class leads to.
func recordOf(ctx context.Context, machine *spi.Machine) string {
	if err := machine.Address.Validate(); err != nil {
		klog.FromContext(ctx).Info("Not recording the address of a machine", "machine", machine.Name, "reason", err.Error())

		return ""
	}

	return machine.Address.Encode()
}

// nodeName returns the name under which the machine's kubelet registers: the guest's hostname, which is the VirtualMachine's
// name.
func nodeName(machine *spi.Machine) string {
	return machine.Name
}
