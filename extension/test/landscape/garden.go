package main

import (
	"context"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/controllermanager/controller/shoot/statuslabel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// labelCredentials labels the Secrets of bindings, as gardener-controller-manager does. The label makes the API server
// call the webhook of the admission.
func (l *landscape) labelCredentials(ctx context.Context) error {
	credentialsBindings, secretBindings := &securityv1alpha1.CredentialsBindingList{}, &gardencorev1beta1.SecretBindingList{} //nolint:staticcheck // deprecated, but still in use
	for _, list := range []client.ObjectList{credentialsBindings, secretBindings} {
		if err := l.seed.Garden.List(ctx, list); err != nil {
			return fmt.Errorf("list bindings: %w", err)
		}
	}

	var failed error

	for i := range credentialsBindings.Items {
		b := &credentialsBindings.Items[i]
		if b.CredentialsRef.Kind == seed.KindSecret {
			failed = errors.Join(failed, l.labelSecret(ctx, client.ObjectKey{Namespace: b.CredentialsRef.Namespace, Name: b.CredentialsRef.Name}, b.Provider.Type))
		}
	}

	for i := range secretBindings.Items {
		b := &secretBindings.Items[i]
		if b.Provider != nil {
			failed = errors.Join(failed, l.labelSecret(ctx, client.ObjectKey{Namespace: b.SecretRef.Namespace, Name: b.SecretRef.Name}, b.Provider.Type))
		}
	}

	return failed
}

// labelSecret labels the Secret of a binding.
func (l *landscape) labelSecret(ctx context.Context, key client.ObjectKey, providerType string) error {
	secret := &corev1.Secret{}
	if err := l.seed.Garden.Get(ctx, key, secret); err != nil {
		return fmt.Errorf("get the Secret of a binding: %w", err)
	}

	if secret.Labels[v1beta1constants.LabelShootProviderPrefix+providerType] != "" {
		return nil
	}

	if err := l.seed.LabelCredentials(ctx, key, providerType); err != nil {
		return err
	}

	l.reporter(controllerManager)("labelled Secret %s as credentials of type %s", key, providerType)

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
