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

// ListMachines lists the shoot's machines of all classes. machine-controller-manager deletes listed
// machines that have no Machine. The list is empty for a class of another provider or without tags,
// since an error would end the orphan collection for all classes.
//
// Codes: InvalidArgument (the kubeconfig is missing or invalid), PermissionDenied, Unauthenticated,
// Unavailable.
func (p *MachinePlugin) ListMachines(
	ctx context.Context, req *driver.ListMachinesRequest,
) (resp *driver.ListMachinesResponse, err error) {
	if req == nil || req.MachineClass == nil {
		return nil, statusFrom(invalid("the request has no MachineClass"), machineclass.KubeconfigSource{})
	}

	secret, err := p.secretWithKubeconfig(req.MachineClass, req.Secret)

	ctx, end := p.begin(ctx, "ListMachines", nil, machineclass.SourceOf(req.MachineClass, secret))
	defer func() { err = end(err) }()

	if err != nil {
		return nil, err
	}

	p.notifyObservers(req.MachineClass, secret)

	id := machineclass.Identity(req.MachineClass)
	if !machineclass.IsOurs(req.MachineClass) || !id.Valid() {
		klog.FromContext(ctx).Info("Listing no machines for a MachineClass of another provider or without the cluster and role tags",
			"machineClass", klog.KObj(req.MachineClass), "provider", req.MachineClass.Provider)

		return &driver.ListMachinesResponse{MachineList: map[string]string{}}, nil
	}

	kubeconfig, err := machineclass.Kubeconfig(req.MachineClass, secret)
	if err != nil {
		return nil, err
	}

	machines, err := p.spi.ListMachines(ctx, &spi.ListMachinesInput{
		Kubeconfig: kubeconfig,
		Identity:   id,
		Class:      machineclass.ToSPI(req.MachineClass),
		Image:      machineclass.Image(req.MachineClass),
	})
	if err != nil {
		return nil, err
	}

	if p.options.Addresses != nil {
		p.options.Addresses.Listed(req.MachineClass, machines)
	}

	list := make(map[string]string, len(machines))
	for _, machine := range machines {
		list[machine.ProviderID] = machine.Name
	}

	return &driver.ListMachinesResponse{MachineList: list}, nil
}
