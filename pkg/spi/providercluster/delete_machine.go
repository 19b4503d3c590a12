package providercluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// DeleteMachine implements spi.PluginSPI. It returns nil only when the guest can no longer run,
// since the Node is deleted next, and a running kubelet would register it again.
func (p *Provider) DeleteMachine(ctx context.Context, in *spi.DeleteMachineInput) error {
	if !in.Identity.Valid() {
		return spi.Errorf(spi.ErrInvalid, "the deletion of a machine requires both the cluster and the role tag")
	}

	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return err
	}

	class := classOf(in.Identity, in.Class, in.Image)
	p.options.Images.Heard(class)

	if err := p.deleteMachine(ctx, s, in); err != nil {
		return err
	}

	p.options.Images.MachineDeleted(ctx, s.clients, class)

	return nil
}

func (p *Provider) deleteMachine(ctx context.Context, s *session, in *spi.DeleteMachineInput) error {
	record := recordForDelete(in)

	vm, err := s.getVirtualMachine(ctx, in.Name)

	switch {
	case record.tolerates(err):
		klog.FromContext(ctx).Info("Ignoring a machine that was given up: its provider cluster cannot be read", "machine", in.Name, "reason", err.Error())

		return nil
	case err != nil:
		return err
	}

	ours, err := s.owns(record, vm)

	switch {
	case err != nil:
	case vm == nil:
		err = p.removeInstance(ctx, s, in)
	case ours:
		err = p.removeAtAddress(ctx, s, in, vm)
	case record.address.GivenUp() && record.claims(vm):
		return nil // The VirtualMachine stays, and with it its disks and Secrets.
	}

	if err != nil {
		return err
	}

	return s.sweep(ctx, in)
}

// removeAtAddress removes a VirtualMachine after its address has been recorded, unless the address
// cannot be recorded.
func (p *Provider) removeAtAddress(
	ctx context.Context, s *session, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	to := s.addressOf(in.Identity, vm.UID)
	if in.Recorded.Elsewhere(to) && to.Validate() == nil {
		return spi.Moved(to)
	}

	return p.removeVirtualMachine(ctx, s, in, vm)
}

func (p *Provider) removeVirtualMachine(
	ctx context.Context, s *session, in *spi.DeleteMachineInput, vm *kubevirtv1.VirtualMachine,
) error {
	if in.Orphan {
		if err := p.checkOrphan(ctx, s, vm); err != nil {
			return err
		}

		// There is no further call for an orphan after its VirtualMachine has been deleted, so its
		// Secrets are deleted first. The VirtualMachine owns its DataVolumes.
		if err := s.sweepSecrets(ctx, in); err != nil {
			return err
		}
	}

	if err := s.deleteVirtualMachine(ctx, vm); err != nil || in.Orphan {
		return err
	}

	return p.awaitMachineGone(ctx, s, vm)
}

// removeInstance removes the instance of a VirtualMachine that is gone. It exists only if the
// VirtualMachine was deleted with orphan propagation, or if its finalizers were removed.
func (p *Provider) removeInstance(ctx context.Context, s *session, in *spi.DeleteMachineInput) error {
	instance, err := s.getInstance(ctx, in.Name)
	if err != nil || instance == nil {
		return err
	}

	record := recordForDelete(in)

	switch {
	case render.Owns(in.Identity, instance.Labels) && !in.Orphan:
	case render.Owns(in.Identity, instance.Labels):
		return spi.WithRemedy(spi.Errorf(spi.ErrConflict, "VirtualMachineInstance %s has no VirtualMachine, and no Machine is known for it",
			s.path(in.Name)), "delete it")
	case record.claims(instance) && !record.address.GivenUp():
		return s.wrongTags(record, "VirtualMachineInstance", instance)
	default:
		return nil
	}

	if err := s.deleteInstance(ctx, instance); err != nil {
		return err
	}

	return p.awaitInstanceGone(ctx, s, instance)
}

// deleteVirtualMachine requests the deletion of a VirtualMachine. If virt-controller adds its
// finalizer at the same time, the VirtualMachine is read and deleted again.
func (s *session) deleteVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if vm.DeletionTimestamp != nil {
			return nil
		}

		deletion := s.request(ctx, "delete VirtualMachine "+s.path(vm.Name), func(ctx context.Context) error {
			return s.virtualMachines().Delete(ctx, vm.Name, deleteUnchanged(vm))
		})
		if deletion == nil || providerapi.Absent(deletion) {
			return nil
		}

		if !apierrors.IsConflict(deletion) {
			return deletion
		}

		now, err := s.getVirtualMachine(ctx, vm.Name)
		if err != nil || now == nil || now.UID != vm.UID {
			return err
		}

		vm = now

		return deletion
	})
}

// deleteUnchanged prevents the API server from deleting a VirtualMachine immediately if
// virt-controller adds its finalizer after the server has checked for finalizers
// (k8s.io/apiserver/pkg/registry/generic/registry/store.go, Delete). virt-controller would then
// create a VirtualMachineInstance after DeleteMachine has succeeded. It creates none if it cannot
// add the finalizer (kubevirt.io/kubevirt/pkg/virt-controller/watch/vm/vm.go, sync).
func deleteUnchanged(vm *kubevirtv1.VirtualMachine) metav1.DeleteOptions {
	options := deleteByUID(vm.UID)
	if len(vm.Finalizers) == 0 {
		options.Preconditions.ResourceVersion = ptr.To(vm.ResourceVersion)
	}

	return options
}

func (s *session) deleteInstance(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) error {
	if instance.DeletionTimestamp != nil {
		return nil
	}

	err := s.request(ctx, "delete VirtualMachineInstance "+s.path(instance.Name), func(ctx context.Context) error {
		return s.instances().Delete(ctx, instance.Name, deleteByUID(instance.UID))
	})
	if providerapi.Absent(err) {
		return nil
	}

	return err
}

// deleteByUID prevents the deletion of another object of the same name.
func deleteByUID(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(uid)),
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	}
}

// sweep deletes the remaining objects of a machine. The server selects them, so that they cannot
// change between a read and the deletion.
func (s *session) sweep(ctx context.Context, in *spi.DeleteMachineInput) error {
	machine, labelled := machineObjects(in)
	if !labelled {
		return nil
	}

	err := s.request(ctx, "delete DataVolumes of "+s.path(in.Name), func(ctx context.Context) error {
		return s.dataVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, machine)
	})
	if err != nil && !apierrors.IsNotFound(err) { // without CDI there are no DataVolumes
		return err
	}

	return s.sweepSecrets(ctx, in)
}

func (s *session) sweepSecrets(ctx context.Context, in *spi.DeleteMachineInput) error {
	machine, labelled := machineObjects(in)
	if !labelled {
		return nil
	}

	return s.request(ctx, "delete Secrets of "+s.path(in.Name), func(ctx context.Context) error {
		return s.secrets().DeleteCollection(withoutBodies(ctx), metav1.DeleteOptions{}, machine)
	})
}

// machineObjects selects the objects of a machine. It returns false if they cannot be selected: the
// machine was created by the predecessor, whose Secrets and DataVolumes have no label with its
// name.
func machineObjects(in *spi.DeleteMachineInput) (metav1.ListOptions, bool) {
	selector, labelled := render.MachineSelector(in.Identity, in.Name)

	return metav1.ListOptions{LabelSelector: selector}, labelled
}
