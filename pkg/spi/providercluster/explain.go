package providercluster

import (
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Explain returns an error of a request to a provider cluster, or nil, as the driver would report it: it wraps a sentinel of the
// package spi, and its text quotes nothing but what an API server says.
func Explain(err error) error {
	return providerapi.Explain(err)
}

// ExplainRefusal does so for the creation of a machine's VirtualMachine, with the fields of the ProviderSpec in place of the
// VirtualMachine's. vm is what render.VirtualMachine returned for the input.
func ExplainRefusal(err error, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) error {
	return inUsersTerms(Explain(err), in, vm)
}

// ExplainImageRefusal does so for the creation of its golden image.
func ExplainImageRefusal(err error) error {
	return imageInUsersTerms(Explain(err))
}
