// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package worker reconciles Workers: it turns the worker pools of a Shoot into MachineDeployments,
// MachineClasses, the Secrets of these classes, and golden images. Gardener's generic actuator
// calls its delegate, and machine-controller-manager does the rest. The package must not create
// machines.
package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// actuator is the generic actuator, except for the deletion of Workers without classes, and the errors
// about removed worker pools.
type actuator struct {
	worker.Actuator

	factory *delegateFactory
}

// removedPool begins the generic actuator's error about a machine of a worker pool that is no longer
// desired (extensions/pkg/controller/worker/genericactuator/actuator_reconcile.go).
const removedPool = "error while waiting for all undesired machine deployments to be deleted"

// Reconcile implements worker.Actuator.
func (a *actuator) Reconcile(ctx context.Context, log logr.Logger, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) error {
	return withRetry(a.Actuator.Reconcile(ctx, log, w, c))
}

// withRetry adds to an error about a removed pool how to try again at once: the failed machine is soon
// deleted, but the next attempt may be minutes away. The error has no code, so that Gardener retries.
func withRetry(err error) error {
	if err == nil || !strings.Contains(err.Error(), removedPool) {
		return err
	}

	return fmt.Errorf("%w; its worker pool was removed, and it is being deleted: Gardener tries again, or at once after "+
		"kubectl annotate shoot NAME gardener.cloud/operation=reconcile", err)
}

// Restore implements worker.Actuator: another seed has created the golden images.
func (a *actuator) Restore(ctx context.Context, log logr.Logger, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) error {
	d, err := a.factory.delegate(w, c)
	if err != nil {
		return err
	}

	if err := d.record(ctx); err != nil {
		return err
	}

	return a.Actuator.Restore(ctx, log, w, c)
}

// Delete implements worker.Actuator.
func (a *actuator) Delete(ctx context.Context, log logr.Logger, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) error {
	return errorcodes.OfDeletion(providercluster.Explain(a.delete(ctx, log, w, c)), c.Shoot, time.Now())
}

// delete deletes the Worker with its machines. The generic actuator waits until machine-controller-manager
// adds its finalizer to the credentials Secret, which it does only for a Secret of a MachineClass.
// A Shoot whose configuration was never valid has no MachineClass: the wait would time out.
func (a *actuator) delete(ctx context.Context, log logr.Logger, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) error {
	d, err := a.factory.delegate(w, c)
	if err != nil {
		return err
	}

	hasMachines, err := d.hasMachines(ctx)
	if err != nil {
		return err
	}

	if hasMachines {
		return a.Actuator.Delete(ctx, log, w, c)
	}

	log.Info("Worker has no MachineClass and no Machine")

	return d.PostDeleteHook(ctx)
}

// hasMachines reports whether the Worker has machines, or classes from which they are created, or
// machine-controller-manager has not released its credentials yet.
func (d *delegate) hasMachines(ctx context.Context) (bool, error) {
	w, err := d.generated(ctx)
	if err != nil || len(w.classes) > 0 {
		return true, err
	}

	for _, list := range []client.ObjectList{
		&machinev1alpha1.MachineClassList{}, &machinev1alpha1.MachineDeploymentList{}, &machinev1alpha1.MachineSetList{}, &machinev1alpha1.MachineList{},
	} {
		if err := d.seed.List(ctx, list, client.InNamespace(d.worker.Namespace)); err != nil {
			return false, fmt.Errorf("list machine resources: %w", err)
		}

		if meta.LenList(list) > 0 {
			return true, nil
		}
	}

	credentials := &corev1.Secret{}
	if err := d.seed.Get(ctx, client.ObjectKey{Namespace: d.worker.Spec.SecretRef.Namespace, Name: d.worker.Spec.SecretRef.Name}, credentials); err != nil {
		return false, client.IgnoreNotFound(err)
	}

	return slices.ContainsFunc(credentials.Finalizers, func(f string) bool { return strings.HasPrefix(f, machinev1alpha1.GroupName+"/") }), nil
}
