// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import kubevirtv1 "kubevirt.io/api/core/v1"

// MACPolicy determines the MAC address of a network interface.
// +kubebuilder:validation:Enum=Stable
type MACPolicy string

// MACStable is an address that is derived from the Machine's UID and the network's name. The
// address, and so DHCP leases, are kept when the virtual machine restarts.
const MACStable MACPolicy = "Stable"

// Network is a network of the machine, and the configuration of its interface.
type Network struct {
	// Name is the NetworkAttachmentDefinition of a Multus network, as "name" or "namespace/name".
	// Either name or pod is required.
	Name string `json:"name,omitempty"`
	// Pod is the provider's pod network. It needs an entry only to configure its interface.
	Pod *PodNetwork `json:"pod,omitempty"`
	// Default makes this Multus network the machine's primary network instead of the pod network.
	// At most one network can be the default.
	Default bool `json:"default,omitempty"`

	// Bridge connects the guest directly to the network, with the pod's addresses. It is the
	// default binding.
	Bridge *kubevirtv1.InterfaceBridge `json:"bridge,omitempty"`
	// Masquerade hides the guest behind the pod's address. It is supported for the pod network
	// only.
	Masquerade *kubevirtv1.InterfaceMasquerade `json:"masquerade,omitempty"`
	// PasstBinding connects the guest with the pod's addresses through a process in user space, and
	// allows live migration. It is supported for the pod network only. KubeVirt 1.8 needs its feature gate
	// PasstBinding, which is on by default since 1.9.
	PasstBinding *kubevirtv1.InterfacePasstBinding `json:"passtBinding,omitempty"`
	// SRIOV passes a virtual function of the host's network card to the guest.
	SRIOV *kubevirtv1.InterfaceSRIOV `json:"sriov,omitempty"`
	// Binding is a network binding plugin that is registered in the provider's KubeVirt resource.
	Binding *kubevirtv1.PluginBinding `json:"binding,omitempty"`

	// Model is the emulated network card. Default: virtio.
	Model string `json:"model,omitempty"`
	// MAC can be Stable, for secondary Multus networks only: the address is derived from the
	// Machine's UID, and kept when the virtual machine restarts. Default: an address that KubeVirt
	// or the network chooses, possibly a new one at each start, unless network data is generated.
	MAC MACPolicy `json:"mac,omitempty"`

	// SHA is a hash of the network's configuration that the predecessor's Gardener extension wrote.
	// It is ignored. Deprecated.
	SHA string `json:"sha,omitempty"`
}

// PodNetwork is the provider's pod network.
type PodNetwork struct {
	// VMNetworkCIDR is the guest's IPv4 network behind a masquerade binding. Default: 10.0.2.0/24.
	VMNetworkCIDR string `json:"vmNetworkCIDR,omitempty"`
	// VMIPv6NetworkCIDR is the guest's IPv6 network behind a masquerade binding. Default:
	// fd10:0:2::/120.
	VMIPv6NetworkCIDR string `json:"vmIPv6NetworkCIDR,omitempty"`
	// AllowBridgeLiveMigration allows the live migration of a guest with a bridge binding. Set it only
	// if the pod network keeps the guest's addresses, as those of OVN-Kubernetes and Kube-OVN do. It is
	// the annotation kubevirt.io/allow-pod-bridge-network-live-migration.
	AllowBridgeLiveMigration bool `json:"allowBridgeLiveMigration,omitempty"`
}
