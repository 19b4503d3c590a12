// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Explain returns the error of a request to a provider cluster, or nil, as the driver reports it:
// the error wraps a sentinel of package spi, and its text quotes only messages of an API server.
func Explain(err error) error {
	return providerapi.Explain(err)
}

// ExplainRefusal is like Explain, for the creation of a machine's VirtualMachine: fields of the
// ProviderSpec replace those of the VirtualMachine. vm is the result of render.VirtualMachine for
// the input.
func ExplainRefusal(err error, in *spi.CreateMachineInput, vm *kubevirtv1.VirtualMachine) error {
	return inProviderSpecTerms(Explain(err), in, vm)
}

// ExplainImageRefusal is like Explain, for the creation of a golden image.
func ExplainImageRefusal(err error) error {
	return imageInProviderSpecTerms(Explain(err))
}
