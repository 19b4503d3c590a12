// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PreReconcileHook implements genericactuator.WorkerDelegate: it creates the golden images and the
// MachineClasses. A hibernated shoot keeps the images that it has.
//
// The generic actuator writes the classes too, but for a class that it creates itself, it waits until
// the MachineDeployment has two MachineSets. machine-controller-manager deletes the old MachineSet
// together with its last machine. The actuator polls every five seconds, misses the end of the rolling
// update, and waits five minutes in vain (gardener/gardener#13522). For an existing class, it waits
// only for the MachineSet of this class.
func (d *delegate) PreReconcileHook(ctx context.Context) error {
	if !extensionscontroller.IsHibernationEnabled(d.cluster) {
		if err := d.createImages(ctx); err != nil {
			return err
		}
	}

	if err := d.DeployMachineClasses(ctx); err != nil {
		return err
	}

	return d.awaitClasses(ctx)
}

// awaitClasses waits until the cache of the manager, from which the generic actuator reads, has all
// desired classes.
func (d *delegate) awaitClasses(ctx context.Context) error {
	const every, atMost = 20 * time.Millisecond, 10 * time.Second

	w, err := d.generated(ctx)
	if err != nil {
		return err
	}

	for _, c := range w.classes {
		if err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
			err := d.seed.Get(ctx, client.ObjectKeyFromObject(c.object), &machinev1alpha1.MachineClass{})

			return err == nil, client.IgnoreNotFound(err)
		}); err != nil {
			return fmt.Errorf("wait until the cache has MachineClass %s: %w", c.object.Name, err)
		}
	}

	return nil
}

// PostReconcileHook implements genericactuator.WorkerDelegate: it deletes the golden images that
// neither a class nor a virtual machine uses.
func (d *delegate) PostReconcileHook(ctx context.Context) error {
	desired, err := d.goldenImages(ctx)
	if err != nil {
		return err
	}

	return d.deleteImages(ctx, sets.KeySet(desired))
}

// PreDeleteHook implements genericactuator.WorkerDelegate.
func (*delegate) PreDeleteHook(context.Context) error { return nil }
