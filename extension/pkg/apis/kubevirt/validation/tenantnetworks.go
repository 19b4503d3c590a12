// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// tenantNetworkTypes are all types of tenant networks.
var tenantNetworkTypes = []api.TenantNetworkType{api.TenantNetworkConfig, api.TenantNetworkKubeOVN, api.TenantNetworkOVN}

// ValidateTenantNetworkTypes returns the errors of CloudProfileConfig.tenantNetworks.
func ValidateTenantNetworkTypes(types []api.TenantNetworkType, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, t := range types {
		if !slices.Contains(tenantNetworkTypes, t) {
			errs = append(errs, field.NotSupported(path.Index(i), t, tenantNetworkTypes))
		}
	}

	return errs
}

// ValidateTenantNetworks returns an error for each tenant network whose type the CloudProfile does not allow. nil allows
// all types.
func ValidateTenantNetworks(networks []api.TenantNetwork, allowed []api.TenantNetworkType, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i := range networks {
		if allowed != nil && !slices.Contains(allowed, networks[i].Type()) {
			errs = append(errs, field.Forbidden(path.Index(i), NotAllowed(&networks[i], allowed)))
		}
	}

	return errs
}

// NotAllowed is the error of a tenant network whose type the CloudProfile does not allow.
func NotAllowed(network *api.TenantNetwork, allowed []api.TenantNetworkType) string {
	remedy := "use a network of its providerConfig.sharedNetworks"

	if len(allowed) > 0 {
		names := make([]string, len(allowed))
		for i, t := range allowed {
			names[i] = string(t)
		}

		remedy = "use " + strings.Join(names, " or ")
	}

	return fmt.Sprintf("the CloudProfile does not allow tenant networks with %s; %s, or ask the operator to add it to providerConfig.tenantNetworks", network.Type(), remedy)
}

func validateTenantNetworks(networks []api.TenantNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	names := sets.New[string]()
	defaults := 0

	for i, n := range networks {
		path := path.Index(i)
		errs = append(errs, validateName(n.Name, path.Child("name"))...)

		if names.Has(n.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), n.Name))
		}

		errs = append(errs, validateTenantNetwork(&n, path)...)

		if n.Default {
			if defaults++; defaults > 1 {
				errs = append(errs, field.Forbidden(path.Child("default"), "another network is already the default; set default for one network only"))
			}
		}

		errs = append(errs, validateAttachment(n.Attachment, n.Default, path)...)
		names.Insert(n.Name)
	}

	return errs
}

// validateTenantNetwork returns the errors of the part of a network that depends on its type.
func validateTenantNetwork(n *api.TenantNetwork, path *field.Path) field.ErrorList {
	var fields []string

	for _, t := range []struct {
		name api.TenantNetworkType
		set  bool
	}{{api.TenantNetworkConfig, n.Config != ""}, {api.TenantNetworkKubeOVN, n.KubeOVN != nil}, {api.TenantNetworkOVN, n.OVN != nil}} {
		if t.set {
			fields = append(fields, string(t.name))
		}
	}

	switch {
	case len(fields) > 1:
		return field.ErrorList{field.Forbidden(path.Child(fields[1]), fields[0]+" is already set; set one of config, kubeOVN and ovn")}
	case n.KubeOVN != nil:
		return validateVirtualNetwork(n, n.KubeOVN, path)
	case n.OVN != nil:
		return validateVirtualNetwork(n, n.OVN, path)
	}

	if err := validateCNIConfig(n.Config); err != nil {
		return field.ErrorList{field.Invalid(path.Child("config"), field.OmitValueType{}, err.Error())}
	}

	return nil
}

func validateVirtualNetwork(n *api.TenantNetwork, network *api.VirtualNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if n.Default {
		errs = append(errs, field.Forbidden(path.Child("default"),
			"the network has no route to the API server of the shoot; remove default, so that the pod network is the default"))
	}

	prefix, err := netip.ParsePrefix(network.CIDR)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() || prefix.Bits() > 29 {
		errs = append(errs, field.Invalid(path.Child(string(n.Type()), "cidr"), network.CIDR, "must be an IPv4 network with at least eight addresses, such as 10.100.0.0/16"))
	}

	return errs
}

// ValidateVirtualNetworkUpdate returns an error for each virtual network with another type or range than before.
func ValidateVirtualNetworkUpdate(networks, old []api.TenantNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i := range networks {
		n := &networks[i]

		j := slices.IndexFunc(old, func(o api.TenantNetwork) bool { return o.Name == n.Name })
		if j >= 0 && (n.Type() != old[j].Type() || rangeOf(n) != rangeOf(&old[j])) {
			errs = append(errs, field.Forbidden(path.Index(i), "the type and the range of a network cannot be changed; add a network with another name, and remove this one"))
		}
	}

	return errs
}

// validateVirtualRanges returns the errors of virtual networks that overlap with each other, or with the networks of the
// Shoot: machines would send packets for one to the other.
func validateVirtualRanges(networking *gardencorev1beta1.Networking, networks []api.TenantNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	known := []cidr{
		{"spec.networking.pods", ptr.Deref(networking.Pods, "")},
		{"spec.networking.services", ptr.Deref(networking.Services, "")},
		{"spec.networking.nodes", ptr.Deref(networking.Nodes, "")},
	}

	for i := range networks {
		own := cidr{path.Index(i).Child(string(networks[i].Type()), "cidr").String(), rangeOf(&networks[i])}

		for _, other := range known {
			if own.overlaps(other) {
				errs = append(errs, field.Invalid(path.Index(i).Child(string(networks[i].Type()), "cidr"), own.text,
					fmt.Sprintf("must not overlap with %s (%s); use another range", other.field, other.text)))
			}
		}

		known = append(known, own)
	}

	return errs
}

// rangeOf returns the range of a virtual network; empty for other networks.
func rangeOf(n *api.TenantNetwork) string {
	switch {
	case n.KubeOVN != nil:
		return n.KubeOVN.CIDR
	case n.OVN != nil:
		return n.OVN.CIDR
	default:
		return ""
	}
}

// cidr is the range of a field.
type cidr struct{ field, text string }

func (c cidr) overlaps(other cidr) bool {
	a, err := netip.ParsePrefix(c.text)
	b, otherErr := netip.ParsePrefix(other.text)

	return err == nil && otherErr == nil && a.Overlaps(b)
}
