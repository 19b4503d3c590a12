// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// maxDeleteWait bounds how long DeleteMachine waits for any guest.
	maxDeleteWait = validation.MaxTerminationGracePeriod + deleteSlack
	// deleteSlack is how long a deletion may take beyond the guest's grace period.
	deleteSlack = time.Minute
	// defaultGracePeriod is KubeVirt's default for a VirtualMachine without a grace period, in
	// seconds.
	defaultGracePeriod = 30
)

// awaitMachineGone waits until the VirtualMachine and its instance are gone. KubeVirt's finalizer
// keeps the VirtualMachine until its instance is gone, but can be removed manually: sweep does not wait for that.
func (m *Machines) awaitMachineGone(ctx context.Context, c *providerapi.Clients, vm *kubevirtv1.VirtualMachine, sweep func() error) error {
	limited, cancel := context.WithTimeout(ctx, deleteWait(gracePeriodOf(vm), m.options.MaxDeleteWait))
	defer cancel()

	if err := c.VirtualMachines().AwaitDeletion(limited, vm); err != nil {
		return m.deletionError(ctx, c, vm.Name, err)
	}

	return together(func() error {
		instance, err := c.Instances().Get(limited, vm.Name)
		if err == nil && instance != nil {
			err = c.Instances().AwaitDeletion(limited, instance)
		}

		return m.deletionError(ctx, c, vm.Name, err)
	}, sweep)
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
		Kind:    spi.ErrTimeout,
		Remedy:  blocker.remedy,
		Message: fmt.Sprintf("%s is still being deleted: %s", r.clients.Path(name), blocker.description),
	}
}
