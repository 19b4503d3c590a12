package providercluster

import (
	"context"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// GetMachineStatus implements spi.PluginSPI. It never reports what is wrong with a machine: from here, that would cost minutes
// until the next look. While the machine is not scheduled it sends machine-controller-manager to InitializeMachine, which
// reports it.
func (p *Provider) GetMachineStatus(ctx context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	vm, err := p.getOurs(ctx, s, in)
	if err != nil {
		return nil, err
	}

	switch {
	case in.Deleting:
		return machineNamed(in.Name), nil
	case vm.DeletionTimestamp != nil && !in.HasProviderID:
		return nil, spi.Errorf(spi.ErrConflict, "VirtualMachine %s is being deleted", s.path(in.Name))
	case p.expired(vm, in):
		// Only beyond this loop does machine-controller-manager measure its creation timeout.
		machine := machineNamed(in.Name)
		machine.Reached.Created = vm.CreationTimestamp.Time

		return machine, nil
	}

	instance, err := s.getInstance(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	return p.statusOf(s, vm, instance)
}

func (p *Provider) statusOf(
	s *session, vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance,
) (*spi.Machine, error) {
	machine, place := machineNamed(vm.Name), loopPlaceOf(s.clients)
	machine.Addresses, machine.Reached = addresses(instance), reachedBy(vm, instance)

	if p.initialized(instance) {
		p.loop.leave(place, vm.Name)

		return machine, nil
	}

	if !p.loop.enter(place, vm.Name) && diagnose.Machine(vm, instance) == nil {
		return machine, nil
	}

	return machine, spi.Errorf(spi.ErrUninitialized, "VirtualMachine %s is %s", s.path(vm.Name), vm.Status.PrintableStatus)
}

// expired says whether the machine has had all the time it was given.
func (p *Provider) expired(vm *kubevirtv1.VirtualMachine, in *spi.ObserveMachineInput) bool {
	return p.options.Clock.Since(vm.CreationTimestamp.Time) > in.CreationTimeout
}
