// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// MachineClasses validates a new Shoot with its CloudProfile as the webhook does, and returns the
// MachineClasses of its pools with the Secrets of their user data. garden contains the Shoot's
// CloudProfile and CredentialsBinding. The ProviderSpecs are those that the Worker controller would
// generate, except for the tenant networks, which do not exist before the Shoot.
func MachineClasses(ctx context.Context, garden client.Reader, shoot *gardencorev1beta1.Shoot) ([]client.Object, error) {
	v := &shootValidator{garden: garden}

	if err := v.Validate(ctx, shoot, nil); err != nil {
		return nil, err
	}

	credentials, err := credentialsOf(ctx, garden, shoot)
	if err != nil {
		return nil, err
	}

	c, err := v.resolve(ctx, shoot)
	if err != nil {
		return nil, err
	}

	if errs := validateCloudProfile(c.profile); len(errs) > 0 {
		return nil, fmt.Errorf("CloudProfile: %w", errs.ToAggregate())
	}

	settings := &workerpool.Settings{
		TechnicalID:   c.technicalID(),
		Region:        c.Spec.Region,
		PodNetwork:    c.podNetwork(),
		Networks:      sharedNetworks(&c.infrastructureConfig),
		Profile:       c.profile,
		ProfileConfig: &c.profileConfig,
	}

	var objects []client.Object

	for i := range shoot.Spec.Provider.Workers {
		pool, errs := settings.Pool(workerpool.FromWorker(&shoot.Spec.Provider.Workers[i]), provider().Child("workers").Index(i))
		if len(errs) > 0 {
			return nil, errs.ToAggregate()
		}

		for zone := range pool.Zones {
			class, errs := machineClass(pool, zone, settings.TechnicalID, credentials)
			if len(errs) > 0 {
				return nil, errs.ToAggregate()
			}

			objects = append(objects, class, userDataSecret(class))
		}
	}

	return objects, nil
}

// credentialsOf returns the Secret to which the Shoot's CredentialsBinding refers.
func credentialsOf(ctx context.Context, garden client.Reader, shoot *gardencorev1beta1.Shoot) (*corev1.SecretReference, error) {
	path := field.NewPath("spec", "credentialsBindingName")
	if shoot.Spec.CredentialsBindingName == nil {
		return nil, field.Required(path, "set the CredentialsBinding with the credentials for the provider cluster")
	}

	binding := &securityv1alpha1.CredentialsBinding{}
	if err := garden.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: *shoot.Spec.CredentialsBindingName}, binding); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	if err := (&bindingValidator{}).Validate(ctx, binding, nil); err != nil {
		return nil, err
	}

	return &corev1.SecretReference{Namespace: binding.CredentialsRef.Namespace, Name: binding.CredentialsRef.Name}, nil
}

// sharedNetworks returns the networks that exist in the provider cluster before the Shoot. A network
// without a namespace is in that of the machines.
func sharedNetworks(config *api.InfrastructureConfig) []api.NetworkStatus {
	var networks []api.NetworkStatus

	for _, n := range config.Networks.SharedNetworks {
		name := n.Name
		if n.Namespace != "" {
			name = n.Namespace + "/" + name
		}

		networks = append(networks, api.NetworkStatus{Name: name, Attachment: n.Attachment})
	}

	return networks
}

func machineClass(pool *workerpool.Pool, zone int, namespace string, credentials *corev1.SecretReference) (*machinev1alpha1.MachineClass, field.ErrorList) {
	_, raw, errs := pool.ProviderSpec(zone)
	if len(errs) > 0 {
		return nil, errs
	}

	name := fmt.Sprintf("%s-%s-z%d", namespace, pool.Name, zone+1)

	return &machinev1alpha1.MachineClass{
		TypeMeta:             metav1.TypeMeta{APIVersion: machinev1alpha1.SchemeGroupVersion.String(), Kind: "MachineClass"},
		ObjectMeta:           metav1.ObjectMeta{Namespace: namespace, Name: name},
		Provider:             kubevirt.Type,
		ProviderSpec:         runtime.RawExtension{Raw: raw},
		SecretRef:            &corev1.SecretReference{Namespace: namespace, Name: name},
		CredentialsSecretRef: credentials,
	}, nil
}

// userDataSecret returns the Secret of a class. Only the operating system extension in the seed knows
// the user data.
func userDataSecret(class *machinev1alpha1.MachineClass) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: secretKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: class.Namespace, Name: class.Name},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{providerspec.SecretKeyUserData: []byte("#cloud-config\n")},
	}
}
