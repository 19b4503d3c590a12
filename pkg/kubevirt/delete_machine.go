package kubevirt

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// DeleteMachine removes the machine and returns when nothing of it runs any more. It needs the machine's name, the tags and
// the kubeconfig only: a class or user data that were broken later do not keep machines alive.
//
// Codes: DeadlineExceeded (still being deleted; the text names what blocks), Aborted (an orphan that was seen for the first
// time), InvalidArgument, PermissionDenied, Unauthenticated, Unavailable.
func (p *MachinePlugin) DeleteMachine(
	ctx context.Context, req *driver.DeleteMachineRequest,
) (resp *driver.DeleteMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), "")
	}

	ctx, end := p.begin(ctx, "DeleteMachine", req.Machine, sourceOf(req.MachineClass, req.Secret))
	defer func() { err = end(err) }()

	in, err := decodeDelete(req)
	if err != nil {
		return nil, err
	}

	p.seen(req.MachineClass, req.Secret)
	p.phases.Forget(req.Machine.UID)

	if err := p.spi.DeleteMachine(ctx, in); err != nil {
		return nil, err
	}

	p.sweep(ctx, req.MachineClass, req.Secret, false)

	return &driver.DeleteMachineResponse{}, nil
}

func decodeDelete(req *driver.DeleteMachineRequest) (*spi.DeleteMachineInput, error) {
	to, err := decodeTarget(req.Machine, req.MachineClass, req.Secret)
	if err != nil {
		return nil, err
	}

	return &spi.DeleteMachineInput{
		Kubeconfig: to.kubeconfig,
		Name:       req.Machine.Name,
		Identity:   to.identity,
		// The safety controller asks with a Machine that it made up from ListMachines (machine_safety.go): it has no UID.
		Orphan: req.Machine.UID == "",
	}, nil
}
