// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func validateNetworks(list []v1alpha1.Network, path *field.Path) field.ErrorList {
	var (
		errs    field.ErrorList
		primary string
	)

	for i, n := range list {
		entry := path.Index(i)
		errs = append(errs, slices.Concat(validateNetworkSource(n, entry), validateBinding(n, entry), validateMAC(n, entry.Child("mac")))...)

		if n.Default || n.Pod != nil {
			errs = append(errs, forbid(entry, primary != "", primary+" is already the machine's primary network; set default or pod only once")...)
			primary = entry.String()
		}
	}

	return errs
}

// validateNetworkSource validates the name, which KubeVirt does not do: with an invalid one, the machine's
// pod is never created.
func validateNetworkSource(n v1alpha1.Network, path *field.Path) field.ErrorList {
	name := path.Child("name")

	switch {
	case n.Pod != nil && n.Name != "":
		return field.ErrorList{field.Forbidden(name, "set either pod or the name of a Multus network")}
	case n.Pod != nil:
		return slices.Concat(
			validateGuestNetwork(n.Pod.VMNetworkCIDR, false, path.Child("pod", "vmNetworkCIDR"), "10.0.2.0/24"),
			validateGuestNetwork(n.Pod.VMIPv6NetworkCIDR, true, path.Child("pod", "vmIPv6NetworkCIDR"), "fd10:0:2::/120"),
			forbid(path.Child("pod", "allowBridgeLiveMigration"), n.Pod.AllowBridgeLiveMigration && !bridges(n),
				"it has no effect with another binding than bridge; remove it"))
	case n.Name == "":
		return field.ErrorList{field.Required(name, `name a NetworkAttachmentDefinition, as "name" or "namespace/name", or set pod`)}
	}

	namespace, definition, found := strings.Cut(n.Name, "/")
	if !found {
		namespace = metav1.NamespaceDefault
		definition = n.Name
	}

	wrong := len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(definition)) > 0

	return refuse(name, wrong, n.Name, `must be the "name" or "namespace/name" of a NetworkAttachmentDefinition`)
}

// validateGuestNetwork validates a network that KubeVirt validates only on the machine's node, where the
// machine would fail forever. The gateway and the guest need an address each.
func validateGuestNetwork(cidr string, is6 bool, path *field.Path, example string) field.ErrorList {
	prefix, err := netip.ParsePrefix(cidr)
	wrong := err != nil || prefix.Addr().Is6() != is6 || prefix.Addr().BitLen()-prefix.Bits() < 2

	return refuse(path, cidr != "" && wrong, cidr, "must be a network with at least four addresses, for example "+example)
}

func validateBinding(n v1alpha1.Network, path *field.Path) field.ErrorList {
	var bindings []string

	for _, b := range []struct {
		name string
		set  bool
	}{
		{"bridge", n.Bridge != nil},
		{"masquerade", n.Masquerade != nil},
		{"passtBinding", n.PasstBinding != nil},
		{"sriov", n.SRIOV != nil},
		{"binding", n.Binding != nil},
	} {
		if b.set {
			bindings = append(bindings, b.name)
		}
	}

	switch {
	case len(bindings) > 1:
		return field.ErrorList{field.Forbidden(path.Child(bindings[1]), bindings[0]+" is already set; an interface has one binding")}
	case n.Binding != nil:
		return require(path.Child("binding", "name"), n.Binding.Name, "name a network binding plugin of the provider's KubeVirt resource")
	case n.Pod == nil:
		return forbid(path.Child("passtBinding"), n.PasstBinding != nil, "KubeVirt supports it for the pod network only; use bridge, or set pod instead of name")
	default:
		return forbid(path.Child("sriov"), n.SRIOV != nil, "the pod network has no virtual functions; name a Multus network")
	}
}

// bridges reports whether a network has a bridge binding, which is the default.
func bridges(n v1alpha1.Network) bool {
	return n.Masquerade == nil && n.PasstBinding == nil && n.SRIOV == nil && n.Binding == nil
}

func validateMAC(n v1alpha1.Network, path *field.Path) field.ErrorList {
	return append(
		validateOneOf(path, cmp.Or(n.MAC, v1alpha1.MACStable), v1alpha1.MACStable),
		forbid(path, n.MAC == v1alpha1.MACStable && (n.Default || n.Pod != nil),
			"only secondary networks support it; the primary network chooses its address, and may drop packets from another one")...)
}
