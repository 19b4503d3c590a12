// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// getOwned returns the VirtualMachine of a Machine, and the clients of its provider cluster. The
// error wraps spi.ErrNotFound if there is none or it is not managed for this Machine.
func (m *Machines) getOwned(ctx context.Context, in *spi.ObserveMachineInput) (*providerapi.Clients, *kubevirtv1.VirtualMachine, error) {
	target := newTarget(in.Name, in.Identity, in.Recorded, in.HasProviderID)

	c, vm, err := m.read(ctx, in.Kubeconfig, in.Name)

	switch {
	case target.tolerates(err):
		return nil, nil, spi.Errorf(spi.ErrNotFound, "VirtualMachine %s was abandoned", in.Name)
	case err != nil:
		return nil, nil, err
	}

	ours, err := owns(c, target, vm)

	switch {
	case err != nil:
		return nil, nil, err
	case !ours:
		return nil, nil, spi.Errorf(spi.ErrNotFound, "VirtualMachine %s", c.Path(in.Name))
	}

	m.endSightings(keyOf(c, vm.Name, vm.UID))

	return c, vm, nil
}

// read reads the VirtualMachine of this name, or nil if there is none.
func (m *Machines) read(ctx context.Context, kubeconfig []byte, name string) (*providerapi.Clients, *kubevirtv1.VirtualMachine, error) {
	c, err := m.clients.For(kubeconfig)
	if err != nil {
		return nil, nil, err
	}

	vm, err := c.VirtualMachines().Get(ctx, name)

	return c, vm, err
}

// instanceOf reads the instance of a VirtualMachine. Without a request, it returns nil if virt-controller has not
// reported one: the status is at most seconds behind, and the machine is read again.
func instanceOf(
	ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine,
) (instance *kubevirtv1.VirtualMachineInstance, err error) {
	if vm.Status.Created {
		instance, err = c.Instances().Get(ctx, vm.Name)
	}

	return instance, err
}

// initialized reports whether the instance has been scheduled, and has an address if it needs one. It is not initialized if its
// guest has failed by then: machine-controller-manager asks the last time some seconds after it was scheduled, so that this
// is the only way to report such a failure.
func initialized(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance, needAddress bool) bool {
	if instance == nil || !wasScheduled(instance) || diagnose.GuestFailed(vm, instance) {
		return false
	}

	return !needAddress || len(addresses(instance)) > 0
}

// wasScheduled reports whether the instance has, or had, a provider node. It does not if it failed
// before, in which case the failure can still be reported.
func wasScheduled(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance.Status.NodeName != "" ||
		slices.ContainsFunc(instance.Status.PhaseTransitionTimestamps, func(t kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp) bool {
			return t.Phase == kubevirtv1.Scheduled || t.Phase == kubevirtv1.Running
		})
}

// reachedBy returns the progress of a machine, according to KubeVirt's timestamps. An instance is
// Scheduling from the creation of its pod, which follows that of the disks, and Scheduled when
// virt-handler has taken it over.
func reachedBy(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance) spi.Reached {
	reached := spi.Reached{Created: vm.CreationTimestamp.Time}
	if instance == nil {
		return reached
	}

	for i := range instance.Status.PhaseTransitionTimestamps {
		switch t := &instance.Status.PhaseTransitionTimestamps[i]; t.Phase {
		case kubevirtv1.Scheduling:
			reached.Disks = t.PhaseTransitionTimestamp.Time
		case kubevirtv1.Scheduled:
			reached.Scheduled = t.PhaseTransitionTimestamp.Time
		case kubevirtv1.Running:
			reached.Running = t.PhaseTransitionTimestamp.Time
		default:
		}
	}

	return reached
}

// addresses returns the addresses of the primary interface.
func addresses(instance *kubevirtv1.VirtualMachineInstance) []corev1.NodeAddress {
	if instance == nil {
		return nil
	}

	var list []corev1.NodeAddress

	for _, nic := range instance.Status.Interfaces {
		if nic.Name != render.PrimaryInterface {
			continue
		}

		for _, ip := range nic.IPs {
			list = append(list, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
	}

	return list
}
