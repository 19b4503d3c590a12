// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// KubeconfigSource describes where the kubeconfig of a request comes from, for errors about it and for
// remedies. It is empty if the source is not known.
//
// machine-controller-manager passes the data of a class's Secrets without their names. Of two
// Secrets, the one in credentialsSecretRef is assumed to contain the kubeconfig, since its data
// take precedence.
type KubeconfigSource struct {
	// Place is the Secret with its key, or the driver's own file.
	Place string
	// Gardener is set if the class belongs to a Shoot: its readers change the Shoot and the
	// CloudProfile, instead of the class and its Secrets.
	Gardener bool
}

// ServerSideSource is the name of the Secret that carries a server-side kubeconfig.
const ServerSideSource = "kubeconfig-dir"

// The label of the MachineClasses of Gardener's extensions
// (github.com/gardener/gardener/pkg/apis/core/v1beta1/constants: GardenerPurpose and
// GardenPurposeMachineClass).
const (
	labelPurpose   = "gardener.cloud/purpose"
	purposeOfClass = "machineclass"
)

// SourceOf returns the source for a request with this class and Secret.
func SourceOf(class *v1alpha1.MachineClass, secret *corev1.Secret) KubeconfigSource {
	if secret != nil && secret.Name == ServerSideSource {
		return KubeconfigSource{Place: "the file of cluster " + Identity(class).Cluster + " in --kubeconfig-dir"}
	}

	source := KubeconfigSource{Gardener: class != nil && class.Labels[labelPurpose] == purposeOfClass}
	if names := secretNames(class); len(names) > 0 {
		source.Place = "Secret " + names[len(names)-1] + ", key " + apiv1alpha1.SecretKeyKubeconfig
	}

	return source
}

// String returns the source as part of a sentence.
func (s KubeconfigSource) String() string {
	if s.Place == "" {
		return "the Secret of the MachineClass, key " + apiv1alpha1.SecretKeyKubeconfig
	}

	return s.Place
}
