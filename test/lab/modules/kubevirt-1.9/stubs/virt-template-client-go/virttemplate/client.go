// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package virttemplate is a stub: the client for VirtualMachineTemplates that KubeVirt uses. None can
// be made.
package virttemplate

import (
	"errors"

	"k8s.io/client-go/rest"
)

// Interface is the client.
type Interface interface {
	// TemplateV1beta1 returns the client of the API group.
	TemplateV1beta1() TemplateV1beta1Interface
}

// TemplateV1beta1Interface is the client of the API group.
type TemplateV1beta1Interface interface {
	// RESTClient returns the client for requests.
	RESTClient() rest.Interface
}

// NewForConfig fails. KubeVirt calls it only with the feature gate OCIExport.
func NewForConfig(*rest.Config) (Interface, error) {
	return nil, errors.New("the lab has no client for VirtualMachineTemplates: leave KubeVirt's feature gate OCIExport off")
}
