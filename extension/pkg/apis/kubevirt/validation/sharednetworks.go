// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// maxOffered bounds the networks of a CloudProfile.
const maxOffered = 1000

// ValidateOfferedNetworks returns the errors of CloudProfileConfig.sharedNetworks.
func ValidateOfferedNetworks(offered []api.OfferedNetwork, path *field.Path) field.ErrorList {
	if len(offered) > maxOffered {
		return field.ErrorList{field.TooMany(path, len(offered), maxOffered)}
	}

	var errs field.ErrorList

	for i, n := range offered {
		path := path.Index(i)

		if n.Namespace == "" && n.Name == "" {
			errs = append(errs, field.Required(path, "set the namespace, the name, or both"))
		}

		if n.Namespace != "" {
			errs = append(errs, validateDNSLabel(n.Namespace, path.Child("namespace"))...)
		}

		if n.Name != "" {
			errs = append(errs, validateName(n.Name, path.Child("name"))...)
		}
	}

	return errs
}

// Offers reports whether a CloudProfile offers a shared network to shoots whose machines are in a namespace. An
// empty namespace is not known: only networks that it offers in no namespace are then refused.
func Offers(offered []api.OfferedNetwork, network api.SharedNetwork, machines string) bool {
	if offered == nil {
		return true
	}

	namespace := cmp.Or(network.Namespace, machines)

	return slices.ContainsFunc(offered, func(o api.OfferedNetwork) bool {
		of := cmp.Or(o.Namespace, machines)

		return (of == namespace || of == "" || namespace == "") && (o.Name == "" || o.Name == network.Name)
	})
}

// NotOffered is the error of a network that the CloudProfile does not offer.
func NotOffered(network api.SharedNetwork) string {
	text := network.Name
	if network.Namespace != "" {
		text = network.Namespace + "/" + network.Name
	}

	return fmt.Sprintf("the CloudProfile does not offer the network %s; use a network of its providerConfig.sharedNetworks, or ask the operator to add it", text)
}

// ValidateSharedNetworks returns an error for each shared network that the CloudProfile does not offer.
func ValidateSharedNetworks(networks []api.SharedNetwork, offered []api.OfferedNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, n := range networks {
		if !Offers(offered, n, "") {
			errs = append(errs, field.Forbidden(path.Index(i), NotOffered(n)))
		}
	}

	return errs
}
