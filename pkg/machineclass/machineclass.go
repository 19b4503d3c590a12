// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package machineclass decodes MachineClasses, and the Machines and Secrets that belong to them,
// into the inputs of the PluginSPI. pkg/kubevirt decodes its requests with it, pkg/evacuation the
// classes that it observes, and the packages in tools the classes that they validate, render and check.
// It must not depend on a driver, gRPC or a client: its functions depend only on their arguments,
// and never modify them.
package machineclass

import (
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// Provider is the provider of the driver's MachineClasses.
	Provider = "kubevirt"
	// predecessorProvider is the provider in the MachineClasses of the driver's predecessor.
	predecessorProvider = "kubevirtdriver//127.0.0.1:8080"
)

// IsOurs reports whether the driver manages the machines of a MachineClass.
func IsOurs(class *v1alpha1.MachineClass) bool {
	return class.Provider == "" || class.Provider == Provider || class.Provider == predecessorProvider
}

// Access returns the kubeconfig of the provider cluster and the identity of a class's machines. The
// error wraps spi.ErrInvalid.
func Access(class *v1alpha1.MachineClass, secret *corev1.Secret) ([]byte, spi.Identity, error) {
	kubeconfig, err := Kubeconfig(class, secret)
	if err != nil {
		return nil, spi.Identity{}, err
	}

	id := Identity(class)
	if !id.Valid() {
		return nil, spi.Identity{}, invalid("the providerSpec of MachineClass %s lacks the tags %s and %s, or they are not label values",
			class.Name, apiv1alpha1.TagCluster, apiv1alpha1.TagRole)
	}

	return kubeconfig, id, nil
}

// Kubeconfig returns the kubeconfig of the provider cluster for a class of this driver. The error
// wraps spi.ErrInvalid.
func Kubeconfig(class *v1alpha1.MachineClass, secret *corev1.Secret) ([]byte, error) {
	if class == nil {
		return nil, invalid("the request has no MachineClass")
	}

	if !IsOurs(class) {
		return nil, invalid("MachineClass %s is of provider %q; set it to %q", class.Name, class.Provider, Provider)
	}

	if secret == nil || len(secret.Data[apiv1alpha1.SecretKeyKubeconfig]) == 0 {
		return nil, missingKey(class, apiv1alpha1.SecretKeyKubeconfig)
	}

	return secret.Data[apiv1alpha1.SecretKeyKubeconfig], nil
}

// missingKey returns the error for a missing key and for a missing Secret.
// machine-controller-manager passes no data for either.
func missingKey(class *v1alpha1.MachineClass, key string) error {
	names := secretNames(class)
	if len(names) == 0 {
		return spi.WithRemedy(invalid("MachineClass %s refers to no Secret with the key %s", class.Name, key), "name the Secret in secretRef")
	}

	return spi.WithRemedy(invalid("MachineClass %s: Secret %s does not exist or has no key %s", class.Name, strings.Join(names, " or "), key),
		"create the Secret in the namespace of the MachineClass, with this key")
}

// secretNames returns the Secrets that a class refers to, as namespace/name. If two of them have
// the same key, machine-controller-manager takes its value from the last one.
func secretNames(class *v1alpha1.MachineClass) []string {
	if class == nil {
		return nil
	}

	var names []string

	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if ref != nil {
			names = append(names, ref.Namespace+"/"+ref.Name)
		}
	}

	return names
}

// Identity returns the identity of a class's machines. It decodes the tags alone, since an invalid
// spec must not prevent the deletion of machines. The identity may be invalid.
func Identity(class *v1alpha1.MachineClass) spi.Identity {
	tags := apiv1alpha1.DecodeTags(class.ProviderSpec.Raw)

	return spi.Identity{Cluster: tags[apiv1alpha1.TagCluster], Role: tags[apiv1alpha1.TagRole]}
}

// ToSPI returns a class as the PluginSPI knows it.
func ToSPI(class *v1alpha1.MachineClass) spi.Class {
	return spi.Class{
		Name:     types.NamespacedName{Namespace: class.Namespace, Name: class.Name},
		Deleted:  class.DeletionTimestamp != nil,
		ShootUID: apiv1alpha1.DecodeTags(class.ProviderSpec.Raw)[apiv1alpha1.TagShootUID],
	}
}

// Image returns the source of a class's golden image, or nil if the class has none that can be decoded.
// Errors in other fields do not change it: otherwise, a class that is no longer valid would not keep its
// image from being deleted.
func Image(class *v1alpha1.MachineClass) *goldenimage.Source {
	if !isKnownArchitecture(class) {
		return nil
	}

	spec, _ := apiv1alpha1.Decode(class.ProviderSpec.Raw, field.NewPath("providerSpec"))
	if spec == nil {
		return nil
	}

	return &goldenimage.Source{Spec: spec, Architecture: Architecture(class)}
}

// architectures are those that KubeVirt knows, in Go's terms.
var architectures = []string{"amd64", "arm64", "s390x"}

// isKnownArchitecture reports whether KubeVirt knows the architecture of a class, or the class has none. A
// machine of another one would stay unschedulable.
func isKnownArchitecture(class *v1alpha1.MachineClass) bool {
	return Architecture(class) == "" || slices.Contains(architectures, Architecture(class))
}

// Architecture returns the CPU architecture of a class's guests in Go's terms; empty if the class does not
// set it.
func Architecture(class *v1alpha1.MachineClass) string {
	if class.NodeTemplate == nil {
		return ""
	}

	return ptr.Deref(class.NodeTemplate.Architecture, "")
}

func invalid(format string, args ...any) error {
	return spi.Errorf(spi.ErrInvalid, format, args...)
}
