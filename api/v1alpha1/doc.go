// Package v1alpha1 is the ProviderSpec: what a MachineClass says about the virtual machines of a worker pool. It holds the
// types and their strict decoding. Every other package imports it; it must not know any of them, nor
// machine-controller-manager.
//
// +kubebuilder:object:generate=true
package v1alpha1
