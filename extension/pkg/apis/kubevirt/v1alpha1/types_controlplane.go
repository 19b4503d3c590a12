package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControlPlaneConfig is spec.provider.controlPlaneConfig of a Shoot. It is reserved: the extension
// does not deploy a cloud-controller-manager yet, and ignores it.
//
// +kubebuilder:object:root=true
type ControlPlaneConfig struct {
	metav1.TypeMeta `json:",inline"`

	// CloudControllerManager configures KubeVirt's cloud-controller-manager.
	CloudControllerManager *CloudControllerManagerConfig `json:"cloudControllerManager,omitempty"`
}

// CloudControllerManagerConfig configures KubeVirt's cloud-controller-manager.
type CloudControllerManagerConfig struct {
	// FeatureGates are Kubernetes feature gates to enable or disable. Clusters in production should
	// set none.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}
