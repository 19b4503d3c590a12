// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/klog/v2"
)

// orphanPass keeps a MachineClass whose machines cannot be listed, for example because its kubeconfig
// is unusable, from ending machine-controller-manager's search for orphans in all other classes
// (checkMachineClasses in machine_safety.go).
type orphanPass struct{ driver.Driver }

// ListMachines implements driver.Driver. It returns an empty list instead of an error: a machine that
// is not listed is never deleted. The driver has counted the error.
func (o orphanPass) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	resp, err := o.Driver.ListMachines(ctx, req)
	if err == nil {
		return resp, nil
	}

	klog.FromContext(ctx).Info("Skipping a MachineClass in the search for orphans until the next period: its machines cannot be listed",
		"machineClass", klog.KObj(req.MachineClass), "err", err)

	return &driver.ListMachinesResponse{MachineList: map[string]string{}}, nil
}
