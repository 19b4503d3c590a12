// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	predicateutils "github.com/gardener/gardener/pkg/controllerutils/predicate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// renewal renews the tokens of ControlPlanes before they expire, or when the health check reports that
// the provider cluster does not accept them any more, and copies those of WorkloadIdentities after gardenlet
// has renewed them: days can pass between two reconciliations of a ControlPlane.
type renewal struct {
	accounts accounts
}

func addRenewal(mgr manager.Manager, a accounts, options AddOptions) error {
	return builder.ControllerManagedBy(mgr).
		Named("controlplane-token-renewal").
		WithOptions(options.Controller).
		For(&extensionsv1alpha1.ControlPlane{}, builder.WithPredicates(predicateutils.AddTypeAndClassPredicates(
			[]predicate.Predicate{predicate.Funcs{UpdateFunc: changes}}, options.ExtensionClasses, kubevirt.Type)...)).
		Complete(&renewal{accounts: a})
}

// changes reports whether more of a ControlPlane changes than the times that the health check writes every 30 seconds.
func changes(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(withoutTimes(e.ObjectOld), withoutTimes(e.ObjectNew))
}

func withoutTimes(object client.Object) client.Object {
	cp, ok := object.DeepCopyObject().(*extensionsv1alpha1.ControlPlane)
	if !ok {
		return object
	}

	cp.ResourceVersion = ""
	cp.ManagedFields = nil

	for i := range cp.Status.Conditions {
		cp.Status.Conditions[i].LastUpdateTime = metav1.Time{}
	}

	return cp
}

// unhealthyPeriod is the interval in which tokens are checked again while the health check finds errors. New errors are
// noticed at once.
const unhealthyPeriod = 5 * time.Minute

// Reconcile implements reconcile.Reconciler.
func (r *renewal) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cp := &extensionsv1alpha1.ControlPlane{}
	if err := r.accounts.seed.Get(ctx, request.NamespacedName, cp); err != nil || cp.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}

	next, found, err := r.next(ctx, cp)
	if err != nil || !found {
		return reconcile.Result{}, err // The ControlPlane changes when it is reconciled.
	}

	if left := time.Until(next); left > 0 && healthy(cp) {
		return reconcile.Result{RequeueAfter: left}, nil
	}

	if err := r.renew(ctx, cp); err != nil {
		return reconcile.Result{}, err
	}

	next, _, err = r.next(ctx, cp)
	if err != nil {
		return reconcile.Result{}, err
	}

	return reconcile.Result{RequeueAfter: min(max(time.Until(next), time.Minute), unhealthyPeriod)}, nil
}

// healthy reports whether the last health check of the ControlPlane found no error. Its result is
// written into the status, which causes a reconciliation.
func healthy(cp *extensionsv1alpha1.ControlPlane) bool {
	condition := v1beta1helper.GetCondition(cp.Status.Conditions, gardencorev1beta1.ShootControlPlaneHealthy)

	return condition == nil || condition.Status == gardencorev1beta1.ConditionTrue
}

func (r *renewal) renew(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) error {
	cluster, err := extensionscontroller.GetCluster(ctx, r.accounts.seed, cp.Namespace)
	if err != nil {
		return err
	}

	m, err := r.accounts.manager(ctx, cp, cluster)
	if err != nil {
		return err
	}

	defer m.Provider.Close()

	var failed error

	for _, i := range identities {
		if err := m.Renew(ctx, i); err != nil {
			failed = errors.Join(failed, fmt.Errorf("renew the token of %s: %w", i.Program, err))
		}
	}

	return failed
}

// copyPeriod is the interval in which copies are compared with the credentials of the shoot: gardenlet may renew
// these at any time.
const copyPeriod = time.Minute

// next returns the earliest time at which a token is due for renewal, or a copy has to be compared; found is false
// without one.
func (r *renewal) next(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) (next time.Time, found bool, _ error) {
	for _, i := range identities {
		secret := &corev1.Secret{}

		err := r.accounts.seed.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: identity.SecretName(i.Program)}, secret)
		if client.IgnoreNotFound(err) != nil {
			return time.Time{}, false, err
		}

		at, has := identity.RenewAt(secret)
		if identity.IsCopy(secret) {
			has = true

			if at, err = r.copyDue(ctx, cp, secret); err != nil {
				return time.Time{}, false, err
			}
		}

		if has && (!found || at.Before(next)) {
			next = at
			found = true
		}
	}

	return next, found, nil
}

// copyDue returns when a copy is due.
func (r *renewal) copyDue(ctx context.Context, cp *extensionsv1alpha1.ControlPlane, secret *corev1.Secret) (time.Time, error) {
	source := &corev1.Secret{}
	if err := r.accounts.seed.Get(ctx, client.ObjectKey{Namespace: cp.Spec.SecretRef.Namespace, Name: cp.Spec.SecretRef.Name}, source); err != nil {
		return time.Time{}, fmt.Errorf("get the credentials of the shoot: %w", err)
	}

	if identity.IsOutdated(secret, source) {
		return time.Now(), nil
	}

	return time.Now().Add(copyPeriod), nil
}
