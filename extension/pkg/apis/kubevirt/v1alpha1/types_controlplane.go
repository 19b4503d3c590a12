// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControlPlaneConfig is spec.provider.controlPlaneConfig of a Shoot: the settings of
// cloud-controller-manager.
//
// +kubebuilder:object:root=true
type ControlPlaneConfig struct {
	metav1.TypeMeta `json:",inline"`

	// CloudControllerManager configures cloud-controller-manager.
	CloudControllerManager *CloudControllerManagerConfig `json:"cloudControllerManager,omitempty"`
	// LoadBalancer configures the Services of type LoadBalancer of the shoot.
	LoadBalancer *LoadBalancerConfig `json:"loadBalancer,omitempty"`
}

// CloudControllerManagerConfig configures cloud-controller-manager.
type CloudControllerManagerConfig struct {
	// FeatureGates are Kubernetes feature gates to enable or disable. Gates that
	// cloud-controller-manager does not know are ignored. Clusters in production should set none.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// LoadBalancerConfig configures the Services of type LoadBalancer of the shoot. Each becomes a
// Service of type LoadBalancer in the provider cluster.
type LoadBalancerConfig struct {
	// Disabled is set if the provider cluster has no load balancers. The Services of the shoot then
	// remain without an address.
	Disabled bool `json:"disabled,omitempty"`
	// AllowedAnnotations are the annotations that Services pass on to their load balancers: keys, or a prefix
	// with "/*". Each must be allowed by the CloudProfile. Default: all that the CloudProfile allows.
	// +optional
	AllowedAnnotations []string `json:"allowedAnnotations,omitzero"`
}
