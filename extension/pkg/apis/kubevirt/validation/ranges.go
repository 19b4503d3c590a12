// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// unusable are ranges that guests use for themselves, or that have no hosts.
var unusable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), // also node-local DNS and metadata services
	netip.MustParsePrefix("224.0.0.0/3"),    // also 240.0.0.0/4, of which Gardener's VPN uses a part
}

// validateVirtualRange returns an error unless a range can have machines.
func validateVirtualRange(text string, path *field.Path) field.ErrorList {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() || prefix.Bits() > 29 {
		return field.ErrorList{field.Invalid(path, text, "must be an IPv4 network with at least eight addresses, such as 10.100.0.0/16")}
	}

	for _, reserved := range unusable {
		if prefix.Overlaps(reserved) {
			return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("must not overlap with %s, which is reserved; use a private network, such as 10.100.0.0/16", reserved))}
		}
	}

	return nil
}

// masqueradeRange is KubeVirt's network of the guests behind a masquerade binding.
const masqueradeRange = "10.0.2.0/24"

// validateRanges returns the errors of the networks of guests that overlap with each other, or with the networks of the
// Shoot: guests would send packets for one to the other. pod is the connection of the machines to the pod network.
func validateRanges(networking *gardencorev1beta1.Networking, networks []api.TenantNetwork, pod *api.PodNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	known := []cidr{
		{"spec.networking.pods", ptr.Deref(networking.Pods, "")},
		{"spec.networking.services", ptr.Deref(networking.Services, "")},
		{"spec.networking.nodes", ptr.Deref(networking.Nodes, "")},
	}

	tenants := path.Child("tenantNetworks")

	for i := range networks {
		for _, subnet := range nodeSubnets(networks[i].Config) {
			known = append(known, cidr{tenants.Index(i).Child("config").String(), subnet})
		}
	}

	if ptr.Deref(pod, api.PodNetwork{}).Binding == api.BindingMasquerade {
		binding := path.Child("pod", "binding")
		guests := cidr{"the guests' network of " + binding.String(), masqueradeRange}
		errs = append(errs, guests.conflicts(known, binding, api.BindingMasquerade, "use another binding, or another range there")...)
		known = append(known, guests)
	}

	for i := range networks {
		if text := rangeOf(&networks[i]); text != "" {
			path := tenants.Index(i).Child(string(networks[i].Type()), "cidr")
			own := cidr{path.String(), text}
			errs = append(errs, own.conflicts(known, path, text, "use another range")...)
			known = append(known, own)
		}
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

// conflicts returns an error for each range that overlaps.
func (c cidr) conflicts(known []cidr, path *field.Path, value, remedy string) field.ErrorList {
	var errs field.ErrorList

	for _, other := range known {
		if c.overlaps(other) {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("%s must not overlap with %s (%s); %s", c.text, other.field, other.text, remedy)))
		}
	}

	return errs
}

func (c cidr) overlaps(other cidr) bool {
	a, err := netip.ParsePrefix(c.text)
	b, otherErr := netip.ParsePrefix(other.text)

	return err == nil && otherErr == nil && a.Overlaps(b)
}
