// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package validation validates the configuration API of the extension, as far as that is possible
// without a provider cluster. The controllers call it after decoding. It must not
// depend on a client.
package validation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// ValidateInfrastructureConfig returns the errors of an InfrastructureConfig.
func ValidateInfrastructureConfig(config *api.InfrastructureConfig, path *field.Path) field.ErrorList {
	networks := path.Child("networks")

	errs := slices.Concat(
		validatePod(&config.Networks, networks),
		validateTenantNetworks(config.Networks.TenantNetworks, networks.Child("tenantNetworks")),
		validateSharedNetworks(config.Networks.SharedNetworks, networks.Child("sharedNetworks")))

	if config.Namespace != nil && config.Namespace.Create {
		errs = append(errs, validateNamespaces(config.Networks.SharedNetworks, networks.Child("sharedNetworks"))...)
	}

	if config.Isolation != nil {
		errs = append(errs, validateCIDRs(config.Isolation.AllowedCIDRs, path.Child("isolation", "allowedCIDRs"))...)
	}

	return errs
}

// maxNetworks bounds the networks of a Shoot. Each of its machines has an interface in each network, and a
// virtual machine has room for about sixteen.
const maxNetworks = 16

// ValidateNetworkCount returns an error if machines would have too many interfaces. It is a function of its own,
// since machines with more networks may exist.
func ValidateNetworkCount(config *api.InfrastructureConfig, path *field.Path) field.ErrorList {
	if len(config.Networks.TenantNetworks)+len(config.Networks.SharedNetworks) <= maxNetworks {
		return nil
	}

	return field.ErrorList{field.Invalid(path.Child("networks"), field.OmitValueType{}, fmt.Sprintf(
		"must have at most %d tenantNetworks and sharedNetworks together, since each is an interface of each machine; remove networks", maxNetworks))}
}

func validateSharedNetworks(networks []api.SharedNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	known := sets.New[string]()

	for i, n := range networks {
		path := path.Index(i)
		errs = append(errs, validateName(n.Name, path.Child("name"))...)

		if n.Namespace != "" {
			errs = append(errs, validateDNSLabel(n.Namespace, path.Child("namespace"))...)
		}

		if key := n.Namespace + "/" + n.Name; known.Has(key) {
			errs = append(errs, field.Duplicate(path, key))
		} else {
			known.Insert(key)
		}

		errs = append(errs, validateAttachment(n.Attachment, false, path)...)
	}

	return errs
}

// validateNamespaces requires namespaces of shared networks: the namespace of a shoot that has its own contains
// only what the extension creates.
func validateNamespaces(networks []api.SharedNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, n := range networks {
		if n.Namespace == "" {
			errs = append(errs, field.Required(path.Index(i).Child("namespace"), "set the namespace of the network; it is not in the namespace that is created for the shoot"))
		}
	}

	return errs
}

// validateAttachment validates the MAC policy: the driver derives stable addresses for secondary networks
// only.
func validateAttachment(a api.Attachment, primary bool, path *field.Path) field.ErrorList {
	switch {
	case a.MAC != "" && a.MAC != providerspec.MACStable:
		return field.ErrorList{field.NotSupported(path.Child("mac"), a.MAC, []providerspec.MACPolicy{providerspec.MACStable})}
	case a.MAC != "" && primary:
		return field.ErrorList{field.Forbidden(path.Child("mac"), "the default network cannot have a stable MAC address; remove mac")}
	default:
		return nil
	}
}

// validateCNIConfig checks that a text is the CNI configuration of one network or of a list of plugins
// (containernetworking/cni, SPEC.md).
func validateCNIConfig(text string) error {
	var config struct {
		Type    string            `json:"type"`
		Plugins []json.RawMessage `json:"plugins"`
	}

	if text == "" {
		return fmt.Errorf("set one of config, kubeOVN and ovn; config must be a CNI configuration in JSON")
	}

	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("must be a CNI configuration in JSON: %w", err)
	}

	if config.Type == "" && len(config.Plugins) == 0 {
		return fmt.Errorf("must be a CNI configuration: set type, or plugins")
	}

	return nil
}

// ValidateNetworking returns the errors of spec.networking of a Shoot, from which gardenlet takes the addresses of
// the nodes. pod is the connection of the machines to the pod network, which may be nil.
func ValidateNetworking(spec *gardencorev1beta1.Networking, config *api.InfrastructureConfig, pod *api.PodNetwork) field.ErrorList {
	networking := ptr.Deref(spec, gardencorev1beta1.Networking{})
	path := field.NewPath("spec", "networking")
	subnets := DefaultSubnets(config)

	networks := field.NewPath("spec", "provider", "infrastructureConfig", "networks")
	if errs := append(validateRanges(&networking, config.Networks.TenantNetworks, pod, networks), validateEncapsulation(&networking, pod, networks)...); len(errs) > 0 {
		return errs
	}

	switch {
	case gardencorev1beta1.IsIPv6SingleStack(networking.IPFamilies):
		return field.ErrorList{field.Invalid(path.Child("ipFamilies"), networking.IPFamilies, "must contain IPv4: machines with IPv6 alone do not work yet")}
	case networking.Nodes == nil && len(subnets) == 0:
		return field.ErrorList{field.Required(path.Child("nodes"), "set the range of the pod network of the provider cluster, "+
			"or a default network in infrastructureConfig.networks.tenantNetworks with a subnet; gardenlet needs the network of the nodes")}
	case networking.Nodes == nil:
		return nil // gardenlet sets it to the subnet.
	default:
		return validateNodesNetwork(*networking.Nodes, subnets, path.Child("nodes"))
	}
}

// validateNodesNetwork compares the Shoot's node network with the subnets of the default network: the routes of
// the VPN to the nodes depend on it.
func validateNodesNetwork(cidr string, subnets []string, path *field.Path) field.ErrorList {
	nodes, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil // Gardener validates it.
	}

	var errs field.ErrorList

	for _, subnet := range subnets {
		if prefix, err := netip.ParsePrefix(subnet); err == nil && prefix.Addr().Is4() == nodes.Addr().Is4() &&
			(!nodes.Contains(prefix.Addr()) || nodes.Bits() > prefix.Bits()) {
			errs = append(errs, field.Invalid(path, nodes.String(),
				fmt.Sprintf("must contain the subnet %s of the default network in infrastructureConfig.networks.tenantNetworks", subnet)))
		}
	}

	return errs
}

// DefaultSubnets returns the subnets of the default tenant network; nil if there is none.
func DefaultSubnets(config *api.InfrastructureConfig) []string {
	i := defaultNetwork(&config.Networks)
	if i < 0 {
		return nil
	}

	return nodeSubnets(config.Networks.TenantNetworks[i].Config)
}

// nodeSubnets returns the subnets from which the IPAM plugin of a CNI configuration takes addresses;
// nil if the configuration does not have them.
func nodeSubnets(config string) []string {
	type ipam struct {
		IPAM struct {
			Subnet string `json:"subnet"` // host-local
			Range  string `json:"range"`  // whereabouts
			Ranges [][]struct {
				Subnet string `json:"subnet"`
			} `json:"ranges"` // host-local
		} `json:"ipam"`
	}

	var list struct {
		ipam

		Plugins []ipam `json:"plugins"`
	}

	if json.Unmarshal([]byte(config), &list) != nil {
		return nil
	}

	var subnets []string

	for _, plugin := range append(list.Plugins, list.ipam) {
		found := []string{plugin.IPAM.Subnet, plugin.IPAM.Range}
		for _, set := range plugin.IPAM.Ranges {
			for _, r := range set {
				found = append(found, r.Subnet)
			}
		}

		for _, subnet := range found {
			if prefix, err := netip.ParsePrefix(subnet); err == nil {
				subnets = append(subnets, prefix.Masked().String())
			}
		}
	}

	return subnets
}

func validateCIDRs(list []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, cidr := range list {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), cidr, "must be a CIDR, such as 10.1.0.0/16"))
		}
	}

	return errs
}

func validateName(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "name the network")}
	}

	return invalid(apivalidation.NameIsDNSSubdomain(value, false), value, path)
}

func validateDNSLabel(value string, path *field.Path) field.ErrorList {
	return invalid(validation.IsDNS1123Label(value), value, path)
}

func invalid(found []string, value string, path *field.Path) field.ErrorList {
	if len(found) == 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(path, value, strings.Join(found, "; "))}
}
