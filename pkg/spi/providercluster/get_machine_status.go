package providercluster

import (
	"context"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// GetMachineStatus implements spi.PluginSPI. It never reports the failure of a machine, after which
// machine-controller-manager would wait for minutes. For a machine that is not scheduled,
// spi.ErrUninitialized makes it call InitializeMachine, which reports the failure.
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
		return newMachine(in.Name), nil
	case vm.DeletionTimestamp != nil && !in.HasProviderID:
		return nil, spi.Errorf(spi.ErrConflict, "VirtualMachine %s is being deleted", s.path(in.Name))
	case p.expired(vm, in):
		// machine-controller-manager checks its creation timeout only for initialized machines.
		machine := newMachine(in.Name)
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
	machine, key := newMachine(vm.Name), loopKeyOf(s.clients)
	machine.Addresses, machine.Reached = addresses(instance), reachedBy(vm, instance)

	if p.initialized(instance) {
		p.loop.leave(key, vm.Name)

		return machine, nil
	}

	if !p.loop.enter(key, vm.Name) && diagnose.Machine(vm, instance) == nil {
		return machine, nil
	}

	return machine, spi.Errorf(spi.ErrUninitialized, "VirtualMachine %s is %s", s.path(vm.Name), vm.Status.PrintableStatus)
}

// expired reports whether the machine's creation timeout has expired.
func (p *Provider) expired(vm *kubevirtv1.VirtualMachine, in *spi.ObserveMachineInput) bool {
	return p.options.Clock.Since(vm.CreationTimestamp.Time) > in.CreationTimeout
}
