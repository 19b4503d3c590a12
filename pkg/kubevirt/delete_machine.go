package kubevirt

import (
	"context"
	"errors"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// DeleteMachine removes the machine and returns when nothing of it runs any more. It needs the machine's name, the tags and
// the kubeconfig only: a class or user data that were broken later do not keep machines alive.
//
// A machine that was found at another address than the recorded one is deleted by the call after the one whose response tells the new
// address, in LastKnownState.
//
// Codes: DeadlineExceeded (still being deleted; the text names what blocks), Aborted (an orphan that was seen for the first
// time, or a new address that is to be recorded), FailedPrecondition (the machine is not at its recorded address), InvalidArgument,
// PermissionDenied, Unauthenticated, Unavailable.
func (p *MachinePlugin) DeleteMachine(
	ctx context.Context, req *driver.DeleteMachineRequest,
) (resp *driver.DeleteMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), "")
	}

	ctx, end := p.begin(ctx, "DeleteMachine", req.Machine, machineclass.SourceOf(req.MachineClass, req.Secret))
	defer func() { err = end(err) }()

	in, err := p.decodeDelete(req)
	if err != nil {
		return nil, err
	}

	p.seen(req.MachineClass, req.Secret)
	p.phases.Forget(req.Machine.UID)

	if err := p.spi.DeleteMachine(ctx, in); err != nil {
		return movedResponse(err), err
	}

	return &driver.DeleteMachineResponse{}, nil
}

// movedResponse carries the new address of a machine that was moved; it is nil for any other error.
func movedResponse(err error) *driver.DeleteMachineResponse {
	var moved *spi.MovedError
	if !errors.As(err, &moved) {
		return nil
	}

	return &driver.DeleteMachineResponse{LastKnownState: moved.To.Encode()}
}

func (p *MachinePlugin) decodeDelete(req *driver.DeleteMachineRequest) (*spi.DeleteMachineInput, error) {
	kubeconfig, identity, err := machineclass.AccessToMachine(req.Machine, req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}

	return &spi.DeleteMachineInput{
		Kubeconfig: kubeconfig,
		Name:       req.Machine.Name,
		Identity:   identity,
		Recorded:   machineclass.RecordedAddress(req.Machine),
		// It counts only for a Machine that exists.
		HasProviderID: req.Machine.Spec.ProviderID != "",
		// The safety controller asks with a Machine that it made up from ListMachines (machine_safety.go): it has no UID.
		Orphan: req.Machine.UID == "",
		Class:  machineclass.ToSPI(req.MachineClass),
		Image:  machineclass.Image(req.MachineClass, p.options.Allowed),
	}, nil
}
