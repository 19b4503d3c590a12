// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// DeleteMachine implements spi.PluginSPI. It returns nil only when the guest can no longer run,
// since the Node is deleted next, and a running kubelet would register it again.
func (m *Machines) DeleteMachine(ctx context.Context, in *spi.DeleteMachineInput) error {
	target := targetOfDeletion(in)

	c, vm, err := m.readForDelete(ctx, in)

	switch {
	case target.tolerates(err):
		klog.FromContext(ctx).Info("Ignoring an abandoned machine: its provider cluster cannot be read", "machine", in.Name, "reason", err.Error())

		return nil
	case err != nil:
		return err
	}

	class := classOf(in.Identity, in.Class, in.Image)
	m.images.RegisterClass(class)

	if err := m.deleteMachine(ctx, c, in, target, vm); err != nil {
		return err
	}

	m.images.MachineDeleted(ctx, c, class)

	return nil
}

func (m *Machines) readForDelete(ctx context.Context, in *spi.DeleteMachineInput) (*providerapi.Clients, *kubevirtv1.VirtualMachine, error) {
	if !in.Identity.Valid() {
		return nil, nil, spi.Errorf(spi.ErrInvalid, "the deletion of a machine requires both the cluster and the role tag")
	}

	return m.read(ctx, in.Kubeconfig, in.Name)
}

// deleteMachine deletes a machine. The VirtualMachine is the one with its name, or nil.
func (m *Machines) deleteMachine(
	ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, target targetMachine, vm *kubevirtv1.VirtualMachine,
) error {
	ours, err := owns(c, target, vm)

	switch {
	case err != nil:
		return err
	case ours:
		return m.removeAtAddress(ctx, c, in, vm)
	case vm == nil:
		err = m.removeInstance(ctx, c, in, target)
	case target.address.IsAbandoned() && target.claims(vm):
		return nil // The VirtualMachine stays, and with it its disks and Secrets.
	}

	if err != nil {
		return err
	}

	return sweep(ctx, c, in)
}

// removeAtAddress removes a VirtualMachine after its address has been recorded, unless the address
// cannot be recorded.
func (m *Machines) removeAtAddress(
	ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	to := addressOf(c, in.Identity, vm.UID)
	if in.Recorded.Differs(to) && to.Validate() == nil {
		return spi.Moved(to)
	}

	return m.removeVirtualMachine(ctx, c, in, vm)
}

func (m *Machines) removeVirtualMachine(
	ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	if in.Orphan {
		return m.removeOrphan(ctx, c, in, vm)
	}

	err := m.deleteAndAwait(ctx, c, in, vm)
	if err != nil || vm.DeletionTimestamp == nil {
		return err
	}

	return sweepVolumes(ctx, c, in) // Somebody may have deleted it with orphan propagation.
}

// deleteAndAwait deletes a VirtualMachine, and waits until the machine is gone. The watch begins at the version that was
// read: it misses nothing, whether it begins before the deletion or after it.
func (m *Machines) deleteAndAwait(
	ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	return together(func() error {
		deleted := false

		defer func() {
			if !deleted {
				cancel() // There is nothing to wait for, also after a panic.
			}
		}()

		err := c.VirtualMachines().DeleteUnchanged(ctx, vm)
		if err == nil {
			err = deleteLeftInstance(ctx, c, in, vm)
		}

		deleted = err == nil

		return err
	}, func() error {
		// The garbage collector deletes the DataVolumes: virt-controller makes the VirtualMachine the owner of all in its
		// templates, also of those that existed before (ClaimMatchedDataVolumes in
		// kubevirt.io/kubevirt/pkg/controller/controller_ref_manager.go).
		return m.awaitMachineGone(ctx, c, vm, func() error { return sweepSecrets(ctx, c, in) })
	})
}

// removeOrphan deletes the Secrets of an orphan before its VirtualMachine, since there is no further call
// after that.
func (m *Machines) removeOrphan(
	ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	if err := m.checkOrphan(ctx, c, vm); err != nil {
		return err
	}

	if err := sweepSecrets(ctx, c, in); err != nil {
		return err
	}

	return c.VirtualMachines().DeleteUnchanged(ctx, vm)
}

// deleteLeftInstance deletes the instance of a VirtualMachine that was deleted with orphan propagation:
// KubeVirt does not delete it, and the VirtualMachine may stay until the garbage collector has released
// its other dependents.
func deleteLeftInstance(ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine) error {
	if vm.DeletionTimestamp == nil || !slices.Contains(vm.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}

	instance, err := c.Instances().Get(ctx, in.Name)
	if err != nil || instance == nil || !render.Owns(in.Identity, instance.Labels) {
		return err
	}

	return c.Instances().DeleteObject(ctx, instance)
}

// removeInstance removes the instance of a VirtualMachine that is gone. It exists only if the
// VirtualMachine was deleted with orphan propagation, or if its finalizers were removed.
func (m *Machines) removeInstance(ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput, target targetMachine) error {
	instance, err := c.Instances().Get(ctx, in.Name)
	if err != nil || instance == nil {
		return err
	}

	switch {
	case render.Owns(in.Identity, instance.Labels) && !in.Orphan:
	case render.Owns(in.Identity, instance.Labels):
		return spi.WithRemedy(spi.Errorf(spi.ErrConflict, "VirtualMachineInstance %s has neither a VirtualMachine nor a Machine",
			c.Path(in.Name)), "delete it")
	case target.claims(instance) && !target.address.IsAbandoned():
		return wrongTags(c, target, "VirtualMachineInstance", instance)
	default:
		return nil
	}

	if err := c.Instances().DeleteObject(ctx, instance); err != nil {
		return err
	}

	return m.awaitInstanceGone(ctx, c, instance)
}

// sweep deletes the remaining objects of a machine.
func sweep(ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput) error {
	return together(
		func() error { return sweepVolumes(ctx, c, in) },
		func() error { return sweepSecrets(ctx, c, in) },
	)
}

func sweepVolumes(ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput) error {
	selector, labelled := render.MachineSelector(in.Identity, in.Name)
	if !labelled {
		return nil // The predecessor's Secrets and DataVolumes have no label with the machine's name.
	}

	err := c.DataVolumes(c.Namespace, "DataVolume").DeleteCollection(ctx, in.Name, selector)
	if apierrors.IsNotFound(err) {
		return nil // without CDI there are no DataVolumes
	}

	return err
}

func sweepSecrets(ctx context.Context, c *providerapi.Clients, in *spi.DeleteMachineInput) error {
	selector, labelled := render.MachineSelector(in.Identity, in.Name)
	if !labelled {
		return nil
	}

	return c.Secrets().DeleteCollection(ctx, in.Name, selector)
}
