// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// GetMachineStatus implements spi.PluginSPI. It never reports the failure of a machine, after which
// machine-controller-manager would wait for minutes. For a machine that is not scheduled, or whose guest has
// failed, spi.ErrUninitialized makes it call InitializeMachine, which reports the failure.
func (m *Machines) GetMachineStatus(ctx context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	c, vm, err := m.getOwned(ctx, in)
	if err != nil {
		return nil, err
	}

	switch {
	case in.Deleting:
		return newMachine(in.Name), nil
	case vm.DeletionTimestamp != nil && !in.HasProviderID:
		return nil, spi.Errorf(spi.ErrConflict, "VirtualMachine %s is being deleted", c.Path(in.Name))
	case m.expired(vm, in):
		// machine-controller-manager checks its creation timeout only for initialized machines.
		machine := newMachine(in.Name)
		machine.Reached.Created = vm.CreationTimestamp.Time

		return machine, nil
	}

	instance, err := instanceOf(ctx, c, vm)
	if err != nil {
		return nil, err
	}

	return m.statusOf(c, vm, instance)
}

func (m *Machines) statusOf(
	c *providerapi.Clients, vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance,
) (*spi.Machine, error) {
	machine := newMachine(vm.Name)
	machine.Addresses = addresses(instance)
	machine.Reached = reachedBy(vm, instance)

	if initialized(vm, instance, m.options.NeedAddress) {
		m.leaveLoop(c, vm.Name)

		return machine, nil
	}

	if !m.enterLoop(c, vm.Name) && diagnose.Machine(vm, instance) == nil {
		return machine, nil
	}

	return machine, spi.Errorf(spi.ErrUninitialized, "VirtualMachine %s is %s", c.Path(vm.Name), vm.Status.PrintableStatus)
}

// expired reports whether the machine's creation timeout has expired.
func (m *Machines) expired(vm *kubevirtv1.VirtualMachine, in *spi.ObserveMachineInput) bool {
	return m.options.Clock.Since(vm.CreationTimestamp.Time) > in.CreationTimeout
}
