// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"errors"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// DeleteMachine deletes the machine, and returns when its VirtualMachine and its
// VirtualMachineInstance are gone. It needs only the machine's name, the tags and the kubeconfig,
// since an invalid class or missing user data must not prevent the deletion; for a Machine that an
// operator has abandoned, only the name.
//
// For a machine at another address than the recorded one, the first call returns the new address in
// LastKnownState, and the next call deletes the machine.
//
// Codes: DeadlineExceeded (still being deleted; the text names the blocker), Aborted (an orphan
// within its grace period, or a new address that has to be recorded), FailedPrecondition (the
// machine is not at its recorded address), InvalidArgument, PermissionDenied, Unauthenticated,
// Unavailable.
func (p *MachinePlugin) DeleteMachine(
	ctx context.Context, req *driver.DeleteMachineRequest,
) (resp *driver.DeleteMachineResponse, err error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), machineclass.KubeconfigSource{})
	}

	secret, err := p.secretWithKubeconfig(req.MachineClass, req.Secret)

	ctx, end := p.begin(ctx, "DeleteMachine", req.Machine, machineclass.SourceOf(req.MachineClass, secret))
	defer func() { err = end(err) }()

	if err != nil && !isAbandoned(req.Machine) {
		return nil, err
	}

	in, err := p.decodeDelete(req, secret)
	if err != nil {
		return nil, err
	}

	p.notifyObservers(req.MachineClass, secret)
	p.phases.Forget(records.Key(req.Machine.UID))

	if err := p.spi.DeleteMachine(ctx, in); err != nil {
		return movedResponse(err), err
	}

	return &driver.DeleteMachineResponse{}, nil
}

// movedResponse returns the response with the new address of a machine that was moved, or nil for
// any other error.
func movedResponse(err error) *driver.DeleteMachineResponse {
	var moved *spi.MovedError
	if !errors.As(err, &moved) {
		return nil
	}

	return &driver.DeleteMachineResponse{LastKnownState: moved.To.Encode()}
}

func (p *MachinePlugin) decodeDelete(req *driver.DeleteMachineRequest, secret *corev1.Secret) (*spi.DeleteMachineInput, error) {
	kubeconfig, identity, err := access(req.Machine, req.MachineClass, secret)
	if err != nil {
		return nil, err
	}

	return &spi.DeleteMachineInput{
		Kubeconfig: kubeconfig,
		Name:       req.Machine.Name,
		Identity:   identity,
		Recorded:   machineclass.RecordedAddress(req.Machine),
		// It is ignored if Orphan is set.
		HasProviderID: req.Machine.Spec.ProviderID != "",
		// The safety controller sends a Machine that it derived from ListMachines, without a UID
		// (machine_safety.go).
		Orphan: req.Machine.UID == "",
		Class:  machineclass.ToSPI(req.MachineClass),
		Image:  machineclass.Image(req.MachineClass),
	}, nil
}
