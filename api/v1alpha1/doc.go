// Package v1alpha1 contains the types of the ProviderSpec, with which a MachineClass describes the
// virtual machines of a worker pool, and their strict decoding. Every other package imports it; it
// must not depend on any of them, nor on machine-controller-manager.
//
// +kubebuilder:object:generate=true
package v1alpha1
