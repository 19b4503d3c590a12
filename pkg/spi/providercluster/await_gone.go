package providercluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

const (
	// MaxDeleteWait bounds how long DeleteMachine waits for any guest.
	MaxDeleteWait = validation.MaxTerminationGracePeriod + deleteSlack
	// deleteSlack is how long a deletion may take beyond the guest's grace period.
	deleteSlack = time.Minute
	// defaultGracePeriod is KubeVirt's default for a VirtualMachine without a grace period, in
	// seconds.
	defaultGracePeriod = 30
	// blockerTimeout bounds the search for the blocker of a deletion.
	blockerTimeout = 10 * time.Second
)

// awaitMachineGone waits until the VirtualMachine and its instance are gone. KubeVirt's finalizer
// keeps the VirtualMachine until its instance is gone, but can be removed manually.
func (m *Machines) awaitMachineGone(ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine) error {
	limited, cancel := context.WithTimeout(ctx, deleteWait(gracePeriodOf(vm), m.options.MaxDeleteWait))
	defer cancel()

	err := c.VirtualMachines().AwaitDeletion(limited, vm)
	if err != nil {
		return m.deletionError(ctx, c, vm.Name, err)
	}

	instance, err := c.Instances().Get(limited, vm.Name)
	if err == nil && instance != nil {
		err = c.Instances().AwaitDeletion(limited, instance)
	}

	return m.deletionError(ctx, c, vm.Name, err)
}

// awaitInstanceGone waits until an instance without a VirtualMachine is gone.
func (m *Machines) awaitInstanceGone(ctx context.Context, c *providerapi.Clients, instance *kubevirtv1.VirtualMachineInstance) error {
	limited, cancel := context.WithTimeout(ctx, deleteWait(instance.Spec.TerminationGracePeriodSeconds, m.options.MaxDeleteWait))
	defer cancel()

	return m.deletionError(ctx, c, instance.Name, c.Instances().AwaitDeletion(limited, instance))
}

// gracePeriodOf returns how long the guest may take to shut down, in seconds; nil if the
// VirtualMachine does not set it.
func gracePeriodOf(vm *kubevirtv1.VirtualMachine) *int64 {
	if vm.Spec.Template == nil {
		return nil
	}

	return vm.Spec.Template.Spec.TerminationGracePeriodSeconds
}

// deleteWait returns how long to wait for the deletion of a machine with this grace period, in
// seconds.
func deleteWait(grace *int64, longest time.Duration) time.Duration {
	seconds := min(max(ptr.Deref(grace, defaultGracePeriod), 0), int64(longest/time.Second))

	return min(time.Duration(seconds)*time.Second+deleteSlack, longest)
}

// deletionError replaces the timeout of a wait with an error that names the blocker of the
// deletion. Any other error, and nil, is returned unchanged.
func (m *Machines) deletionError(ctx context.Context, c *providerapi.Clients, name string, err error) error {
	switch {
	case err == nil || !wait.Interrupted(err):
		return err
	case ctx.Err() != nil:
		return spi.Errorf(spi.ErrUnavailable, "wait for the deletion of %s: %w", c.Path(name), ctx.Err())
	}

	return (&reader{clients: c}).stillDeleting(ctx, name, m.options.Clock.Now())
}

func (r *reader) stillDeleting(ctx context.Context, name string, now time.Time) *spi.Error {
	blocker := r.blocker(ctx, name, now)

	return &spi.Error{
		Kind: spi.ErrTimeout, Remedy: blocker.remedy,
		Message: fmt.Sprintf("%s is still being deleted: %s", r.clients.Path(name), blocker.description),
	}
}

// blocker is the reason why a machine still exists after its deletion.
type blocker struct{ description, remedy string }

// blocker returns the obstacle to a machine's deletion. Its remedy is empty if it is not known.
func (r *reader) blocker(ctx context.Context, name string, now time.Time) blocker {
	ctx, cancel := context.WithTimeout(ctx, blockerTimeout)
	defer cancel()

	instance, err := r.clients.Instances().Get(ctx, name)
	if err != nil {
		return blocker{description: "the VirtualMachineInstance cannot be read"}
	}

	if instance != nil {
		return r.blockerOf(ctx, instance, now)
	}

	vm, err := r.clients.VirtualMachines().Get(ctx, name)
	if err != nil || vm == nil {
		return blocker{description: "it has just been deleted, or cannot be read"}
	}

	return blocker{
		description: "the VirtualMachine has finalizers " + strings.Join(vm.Finalizers, ", "),
		remedy:      "check that virt-controller runs",
	}
}

// blockerOf returns the obstacle to the termination of an instance. Only its provider node can
// terminate it: if the node does not respond, an operator has to act.
func (r *reader) blockerOf(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, now time.Time) blocker {
	if dead := diagnose.DeadNode(r.podsOf(ctx, instance), now); dead != nil {
		return blocker{description: dead.Message, remedy: dead.Remedy}
	}

	state := fmt.Sprintf("the VirtualMachineInstance is %s", instance.Status.Phase)
	if node := nodeOf(instance); node != "" {
		return blocker{description: fmt.Sprintf("%s on provider node %q", state, node), remedy: "check that node"}
	}

	return blocker{
		description: fmt.Sprintf("%s, with finalizers %s", state, strings.Join(instance.Finalizers, ", ")),
		remedy:      "check that virt-controller runs",
	}
}
