// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/controllermanager/controller/cloudprofile"
	"github.com/gardener/gardener/pkg/controllermanager/controller/credentialsbinding"
	"github.com/gardener/gardener/pkg/controllermanager/controller/secretbinding"
	"github.com/gardener/gardener/pkg/controllermanager/controller/shoot/statuslabel"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// references runs the controllers of gardener-controller-manager for the objects to which Shoots refer.
type references struct {
	garden client.Client

	credentials, secrets, profiles reconcile.Reconciler
}

func newReferences(garden client.Client) references {
	// The errors of the controllers contain the texts of their events.
	discarded := &events.FakeRecorder{}

	return references{
		garden:      garden,
		credentials: &credentialsbinding.Reconciler{Client: garden, Recorder: discarded},
		secrets:     &secretbinding.Reconciler{Client: garden, Recorder: discarded},
		profiles:    &cloudprofile.Reconciler{Client: garden, Recorder: discarded, Clock: clock.RealClock{}},
	}
}

// protect keeps CloudProfiles, bindings and their Secrets until no Shoot uses them, and labels the
// Secrets. The label makes the API server call the webhook of the admission.
func (r references) protect(ctx context.Context, report func(format string, args ...any)) error {
	bindings := &securityv1alpha1.CredentialsBindingList{}
	secretBindings := &gardencorev1beta1.SecretBindingList{} //nolint:staticcheck // deprecated, but still in use
	profiles := &gardencorev1beta1.CloudProfileList{}

	for _, list := range []client.ObjectList{bindings, secretBindings, profiles} {
		if err := r.garden.List(ctx, list); err != nil {
			return fmt.Errorf("list objects of the garden: %w", err)
		}
	}

	var errs []error

	for i := range bindings.Items {
		b := &bindings.Items[i]
		errs = append(errs, protectOne(ctx, r.credentials, b, func() {
			report("CredentialsBinding %s: Secret %s/%s is labelled, and is kept while the binding exists", client.ObjectKeyFromObject(b), b.CredentialsRef.Namespace, b.CredentialsRef.Name)
		}))
	}

	for i := range secretBindings.Items {
		b := &secretBindings.Items[i]
		errs = append(errs, protectOne(ctx, r.secrets, b, func() {
			report("SecretBinding %s: Secret %s/%s is labelled, and is kept while the binding exists", client.ObjectKeyFromObject(b), b.SecretRef.Namespace, b.SecretRef.Name)
		}))
	}

	for i := range profiles.Items {
		p := &profiles.Items[i]
		errs = append(errs, protectOne(ctx, r.profiles, p, func() { report("CloudProfile %s is kept while Shoots use it", p.Name) }))
	}

	return errors.Join(errs...)
}

// protectOne runs a controller for an object, and reports when the object is protected for the first time.
func protectOne(ctx context.Context, controller reconcile.Reconciler, object client.Object, report func()) error {
	added := object.GetDeletionTimestamp() == nil && !controllerutil.ContainsFinalizer(object, gardencorev1beta1.GardenerName)

	if _, err := controller.Reconcile(ctx, request(client.ObjectKeyFromObject(object))); err != nil {
		return fmt.Errorf("%s: %w", object.GetName(), err)
	}

	if added {
		report()
	}

	return nil
}

// labelShoots writes the labels from which kubectl shows the status of Shoots, with the controller of
// gardener-controller-manager.
func (l *landscape) labelShoots(ctx context.Context) error {
	shoots := &gardencorev1beta1.ShootList{}
	if err := l.seed.Garden.List(ctx, shoots); err != nil {
		return fmt.Errorf("list Shoots: %w", err)
	}

	labels := &statuslabel.Reconciler{Client: l.seed.Garden}

	var failed error

	for i := range shoots.Items {
		key := client.ObjectKeyFromObject(&shoots.Items[i])
		if _, err := labels.Reconcile(ctx, request(key)); client.IgnoreNotFound(err) != nil {
			failed = errors.Join(failed, fmt.Errorf("label Shoot %s: %w", key, err))
		}
	}

	return failed
}

// schedule places Shoots on the Seed, as gardener-scheduler does.
func (l *landscape) schedule(ctx context.Context) error {
	shoots := &gardencorev1beta1.ShootList{}
	if err := l.seed.Garden.List(ctx, shoots); err != nil {
		return fmt.Errorf("list Shoots: %w", err)
	}

	var failed error

	for i := range shoots.Items {
		s := &shoots.Items[i]
		if s.Spec.SeedName != nil || s.DeletionTimestamp != nil {
			continue
		}

		s.Spec.SeedName = ptr.To(seedName)
		if err := l.seed.Garden.SubResource("binding").Update(ctx, s); err != nil {
			failed = errors.Join(failed, fmt.Errorf("place Shoot %s: %w", client.ObjectKeyFromObject(s), err))

			continue
		}

		l.reporter("gardener-scheduler")("placed Shoot %s on Seed %s", client.ObjectKeyFromObject(s), seedName)
	}

	return failed
}
