package providercluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

const (
	// deleteSlack is what a deletion may take beyond the guest's own grace period.
	deleteSlack = time.Minute
	// maxDeleteWait bounds the wait for any guest: machine-controller-manager asks again.
	maxDeleteWait = 5 * time.Minute
	// defaultGracePeriod is KubeVirt's, in seconds, for a virtual machine that names none.
	defaultGracePeriod = 30
)

// DeleteMachine implements spi.PluginSPI. It returns nil only when nothing of the machine can run any more: right after, the
// Node is removed, and a living kubelet would register it again.
func (p *Provider) DeleteMachine(ctx context.Context, in *spi.DeleteMachineInput) error {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return err
	}

	vm, err := s.getVirtualMachine(ctx, in.Name)
	if err != nil {
		return err
	}

	if vm == nil || !render.Owns(in.Identity, vm.Labels) {
		return s.sweep(ctx, in)
	}

	if in.Orphan {
		if err := p.sightOrphan(ctx, s, vm); err != nil {
			return err
		}
	}

	if err := s.deleteVirtualMachine(ctx, vm); err != nil {
		return err
	}

	if !in.Orphan {
		if err := s.awaitGone(ctx, vm); err != nil {
			return err
		}
	}

	return s.sweep(ctx, in)
}

func (s *session) deleteVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	if vm.DeletionTimestamp != nil {
		return nil
	}

	err := s.request(ctx, "delete VirtualMachine "+s.path(vm.Name), func(ctx context.Context) error {
		return s.virtualMachines().Delete(ctx, vm.Name, metav1.DeleteOptions{
			Preconditions:     metav1.NewUIDPreconditions(string(vm.UID)),
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}

	return err
}

// sweep removes what a machine leaves behind. The server selects what is deleted: nothing is read, so nothing can change
// between a look and the deletion.
func (s *session) sweep(ctx context.Context, in *spi.DeleteMachineInput) error {
	selector := metav1.ListOptions{LabelSelector: render.MachineSelector(in.Identity, in.Name)}

	err := s.request(ctx, "delete DataVolumes of "+s.path(in.Name), func(ctx context.Context) error {
		return s.dataVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, selector)
	})
	if err != nil && !apierrors.IsNotFound(err) { // without CDI there are no DataVolumes
		return err
	}

	return s.request(ctx, "delete Secrets of "+s.path(in.Name), func(ctx context.Context) error {
		return s.secrets().DeleteCollection(withoutBodies(ctx), metav1.DeleteOptions{}, selector)
	})
}

// awaitGone waits until the VirtualMachine and its instance are gone. KubeVirt's finalizer makes the first imply the second,
// but a finalizer can be removed by hand, so the instance is looked at.
func (s *session) awaitGone(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	ctx, cancel := context.WithTimeout(ctx, deleteWait(vm))
	defer cancel()

	if err := s.awaitVirtualMachineGone(ctx, vm); err != nil {
		return s.undeleted(ctx, vm.Name, err)
	}

	instance, err := s.getInstance(ctx, vm.Name)
	if err != nil || instance == nil {
		return err
	}

	err = untilDeleted(ctx, instance.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return s.instances().Watch(ctx, named(vm.Name, o))
	})

	return s.undeleted(ctx, vm.Name, err)
}

func (s *session) awaitVirtualMachineGone(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	return untilDeleted(ctx, vm.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return s.virtualMachines().Watch(ctx, named(vm.Name, o))
	})
}

// deleteWait returns how long to wait for a machine to be gone.
func deleteWait(vm *kubevirtv1.VirtualMachine) time.Duration {
	grace := int64(defaultGracePeriod)
	if vm.Spec.Template != nil {
		grace = ptr.Deref(vm.Spec.Template.Spec.TerminationGracePeriodSeconds, defaultGracePeriod)
	}

	return min(time.Duration(grace)*time.Second+deleteSlack, maxDeleteWait)
}

// undeleted turns the end of a wait into an error that names what blocks the deletion; nil stays nil.
func (s *session) undeleted(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case !wait.Interrupted(err):
		return fmt.Errorf("%w: watch the deletion of %s: %w", spi.ErrUnavailable, s.path(name), err)
	}

	return fmt.Errorf("%w: %s is still being deleted: %s", spi.ErrTimeout, s.path(name), s.blocker(context.WithoutCancel(ctx), name))
}

// blocker says, in a few words, what keeps a machine from being gone.
func (s *session) blocker(ctx context.Context, name string) string {
	instance, err := s.getInstance(ctx, name)
	if err != nil {
		return "the VirtualMachineInstance cannot be read"
	}

	if instance != nil {
		return fmt.Sprintf("the VirtualMachineInstance is %s on provider node %q; check that node", instance.Status.Phase, instance.Status.NodeName)
	}

	vm, err := s.getVirtualMachine(ctx, name)
	if err != nil || vm == nil {
		return "it has just gone, or cannot be read"
	}

	return "finalizers " + strings.Join(vm.Finalizers, ", ") + " of the VirtualMachine; check that virt-controller runs"
}

// untilDeleted waits for the deletion of the one object that watch watches, from a resource version at which it existed.
func untilDeleted(ctx context.Context, version string, watchObject cache.WatchFuncWithContext) error {
	lw := &cache.ListWatch{WatchFuncWithContext: watchObject}

	_, err := watchtools.Until(ctx, version, lw, func(event watch.Event) (bool, error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}

		return event.Type == watch.Deleted, nil
	})

	return err
}

func named(name string, o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = metav1.SingleObject(metav1.ObjectMeta{Name: name}).FieldSelector

	return o
}
