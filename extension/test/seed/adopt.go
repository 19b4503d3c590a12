// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// kindSecret is the kind of credentials that have a kubeconfig.
const kindSecret = "Secret"

// Credentials returns a kubeconfig with the permissions of an account, for a Secret in the garden.
func (s *Seed) Credentials(ctx context.Context, account Account) ([]byte, error) {
	kubeconfig, _, err := s.credentials(ctx, account)

	return kubeconfig, err
}

// Adopt prepares a Shoot of the garden on the seed, as gardenlet does: with its CloudProfile, and the
// credentials to which its binding refers.
func (s *Seed) Adopt(ctx context.Context, key client.ObjectKey) (*Botanist, error) {
	shoot := &Botanist{Object: &gardencorev1beta1.Shoot{}, seed: s, Repeats: func(error) {}}
	if err := s.Garden.Get(ctx, key, shoot.Object); err != nil {
		return nil, err
	}

	shoot.Namespace = gardenerutils.ComputeTechnicalID(project, shoot.Object)

	// A Shoot without credentials is not adopted: it can be deleted at once.
	if err := shoot.readReferences(ctx); err != nil {
		return nil, err
	}

	before := shoot.Object.DeepCopy()
	controllerutil.AddFinalizer(shoot.Object, gardencorev1beta1.GardenerName)

	if err := s.Garden.Patch(ctx, shoot.Object, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("add gardenlet's finalizer: %w", err)
	}

	before = shoot.Object.DeepCopy()
	shoot.Object.Status.TechnicalID = shoot.Namespace
	shoot.Object.Status.UID = shoot.Object.UID

	if err := s.Garden.Status().Patch(ctx, shoot.Object, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("write the technical ID and the UID: %w", err)
	}

	return shoot, shoot.prepare(ctx)
}

// Refresh reads the Shoot, its CloudProfile and its credentials from the garden again, as gardenlet does
// before each operation. A deletion that failed at its end has removed the namespace.
func (s *Botanist) Refresh(ctx context.Context) error {
	stored := &gardencorev1beta1.Shoot{}
	if err := s.seed.Garden.Get(ctx, client.ObjectKeyFromObject(s.Object), stored); err != nil {
		return err
	}

	s.Object = stored

	if err := s.readReferences(ctx); err != nil {
		return err
	}

	if err := s.createNamespace(ctx); err != nil {
		return err
	}

	return s.SetCredentials(ctx, s.Kubeconfig)
}

// readReferences reads the CloudProfile and the credentials of the Shoot from the garden. The machines are in
// the namespace of the kubeconfig, or in one of their own.
func (s *Botanist) readReferences(ctx context.Context) (err error) {
	if s.Profile, err = gardenerutils.GetCloudProfile(ctx, s.seed.Garden, s.Object); err != nil {
		return fmt.Errorf("get CloudProfile: %w", err)
	}

	ref, err := s.seed.credentialsRef(ctx, s.Object)
	if err != nil {
		return err
	}

	secret := &corev1.Secret{}
	if err := s.seed.Garden.Get(ctx, ref, secret); err != nil {
		return fmt.Errorf("get Secret: %w", err)
	}

	s.Kubeconfig = secret.Data[providerspec.SecretKeyKubeconfig]

	if s.account, err = accountOf(s.Kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig in Secret %s: %w", secret.Name, err)
	}

	s.ProviderNamespace = s.account.namespace
	if createsNamespace(s.Object) {
		s.ProviderNamespace = s.Namespace
	}

	return nil
}

var errNoCredentials = errors.New("must name a binding of a Secret")

// credentialsRef returns the Secret to which the binding of a Shoot refers.
func (s *Seed) credentialsRef(ctx context.Context, shoot *gardencorev1beta1.Shoot) (client.ObjectKey, error) {
	key := func(name *string) client.ObjectKey { return client.ObjectKey{Namespace: shoot.Namespace, Name: *name} }

	secretBinding := shoot.Spec.SecretBindingName //nolint:staticcheck // deprecated, but still in use

	switch credentialsBinding := shoot.Spec.CredentialsBindingName; {
	case credentialsBinding != nil:
		binding := &securityv1alpha1.CredentialsBinding{}
		if err := s.Garden.Get(ctx, key(credentialsBinding), binding); err != nil {
			return client.ObjectKey{}, fmt.Errorf("get CredentialsBinding: %w", err)
		}

		if ref := binding.CredentialsRef; ref.Kind != kindSecret {
			return client.ObjectKey{}, fmt.Errorf("spec.credentialsBindingName: %w, not of %s %s", errNoCredentials, ref.Kind, ref.Name)
		}

		return client.ObjectKey{Namespace: binding.CredentialsRef.Namespace, Name: binding.CredentialsRef.Name}, nil
	case secretBinding != nil:
		binding := &gardencorev1beta1.SecretBinding{} //nolint:staticcheck // deprecated, but still in use
		if err := s.Garden.Get(ctx, key(secretBinding), binding); err != nil {
			return client.ObjectKey{}, fmt.Errorf("get SecretBinding: %w", err)
		}

		return client.ObjectKey{Namespace: binding.SecretRef.Namespace, Name: binding.SecretRef.Name}, nil
	default:
		return client.ObjectKey{}, fmt.Errorf("spec.credentialsBindingName: %w", errNoCredentials)
	}
}

// accountOf returns the account of a kubeconfig: the shipped manifests create it in the namespace of the
// context.
func accountOf(kubeconfig []byte) (Account, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return Account{}, err
	}

	namespace, _, err := clientcmd.NewDefaultClientConfig(*config, nil).Namespace()
	if err != nil {
		return Account{}, err
	}

	if forNamespaces := AccountForNamespaces(); namespace == forNamespaces.namespace {
		return forNamespaces, nil
	}

	return AccountIn(namespace), nil
}

func createsNamespace(shoot *gardencorev1beta1.Shoot) bool {
	config := &api.InfrastructureConfig{}
	if raw := shoot.Spec.Provider.InfrastructureConfig; raw == nil || json.Unmarshal(raw.Raw, config) != nil {
		return false // The extension reports an invalid configuration.
	}

	return config.Namespace != nil && config.Namespace.Create
}

// Change changes the Shoot in the garden, as a user does. The change takes effect with the next call of
// Reconcile.
func (s *Botanist) Change(ctx context.Context, change func(*gardencorev1beta1.Shoot)) error {
	stored := &gardencorev1beta1.Shoot{}
	if err := s.seed.Garden.Get(ctx, client.ObjectKeyFromObject(s.Object), stored); err != nil {
		return err
	}

	change(stored)

	if err := s.seed.Garden.Update(ctx, stored); err != nil {
		return err
	}

	stored.Status = s.Object.Status // gardenlet writes it.
	s.Object = stored

	return nil
}

// RequestDeletion deletes the Shoot in the garden, as a user does.
func (s *Botanist) RequestDeletion(ctx context.Context) error {
	object := s.Object.DeepCopy()
	before := client.MergeFrom(s.Object)
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")

	if err := s.seed.Garden.Patch(ctx, object, before); err != nil {
		return fmt.Errorf("confirm the deletion: %w", err)
	}

	return s.seed.Garden.Delete(ctx, object)
}

// Release removes gardenlet's finalizer from a Shoot of the garden, as gardenlet does after Delete. The Shoot may be
// gone.
func (s *Seed) Release(ctx context.Context, key client.ObjectKey) error {
	object := &gardencorev1beta1.Shoot{}
	if err := s.Garden.Get(ctx, key, object); err != nil {
		return client.IgnoreNotFound(err)
	}

	before := client.MergeFrom(object.DeepCopy())
	object.Finalizers = nil

	return wrap(client.IgnoreNotFound(s.Garden.Patch(ctx, object, before)), "remove the finalizer of Shoot "+key.String())
}
