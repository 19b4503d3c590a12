// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkloadIdentityConfig is spec.targetSystem.providerConfig of a WorkloadIdentity: the provider cluster
// that accepts its tokens. The audiences of the tokens are spec.audiences of the WorkloadIdentity.
//
// +kubebuilder:object:root=true
type WorkloadIdentityConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Server is the https URL of the API server of the provider cluster. It may have a path, but no
	// credentials and no query.
	Server string `json:"server"`
	// CertificateAuthority contains the PEM-encoded certificates of the authorities that sign the
	// certificate of the API server. It is needed unless they are public ones.
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
	// TLSServerName is the name in the certificate of the API server, if it is not the host of the server.
	TLSServerName string `json:"tlsServerName,omitempty"`
	// Namespace is the namespace of the machines in the provider cluster. Shoots with namespace.create in
	// their InfrastructureConfig use a namespace of their own instead. It cannot be changed.
	Namespace string `json:"namespace"`
}
