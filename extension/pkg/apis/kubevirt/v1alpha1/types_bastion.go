// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BastionStatus is status.providerStatus of a Bastion.
//
// +kubebuilder:object:root=true
type BastionStatus struct {
	metav1.TypeMeta `json:",inline"`

	// Namespace is the namespace of the bastion in the provider cluster. It is recorded before the first
	// object is created.
	// +kubebuilder:validation:Required
	Namespace string `json:"namespace"`
}
