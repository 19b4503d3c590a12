package v1alpha1

import kubevirtv1 "kubevirt.io/api/core/v1"

// MACPolicy says where a network interface's MAC address comes from.
type MACPolicy string

// MACStable is an address made from the Machine's UID and the network's name: it stays when the virtual machine restarts, and
// so do DHCP leases.
const MACStable MACPolicy = "Stable"

// Network is a network of the machine, and how its interface is bound to it.
type Network struct {
	// Name is the NetworkAttachmentDefinition of a Multus network: "name", or "namespace/name". Either it or pod is required.
	Name string `json:"name,omitempty"`
	// Pod is the provider's pod network. It needs an entry only if its interface is to be configured.
	Pod *PodNetwork `json:"pod,omitempty"`
	// Default makes this Multus network the machine's primary one, in place of the pod network. At most one network may be it.
	Default bool `json:"default,omitempty"`

	// Bridge connects the guest to the network itself: it has the pod's addresses. It is the binding if none is given.
	Bridge *kubevirtv1.InterfaceBridge `json:"bridge,omitempty"`
	// Masquerade hides the guest behind the pod's address. For the pod network only.
	Masquerade *kubevirtv1.InterfaceMasquerade `json:"masquerade,omitempty"`
	// SRIOV passes a virtual function of the host's network card to the guest.
	SRIOV *kubevirtv1.InterfaceSRIOV `json:"sriov,omitempty"`
	// Binding is a network binding plugin, registered in the provider's KubeVirt resource.
	Binding *kubevirtv1.PluginBinding `json:"binding,omitempty"`

	// Model is the emulated network card. Default: virtio.
	Model string `json:"model,omitempty"`
	// MAC may be Stable, for secondary Multus networks only: an address made from the Machine's UID, which stays when the
	// virtual machine restarts. Default: KubeVirt's and the network's choice, which may change with each start, unless
	// network data is generated.
	MAC MACPolicy `json:"mac,omitempty"`

	// SHA is a hash of the network's configuration, which the predecessor's Gardener extension wrote. It is ignored. Deprecated.
	SHA string `json:"sha,omitempty"`
}

// PodNetwork is the provider's pod network.
type PodNetwork struct {
	// VMNetworkCIDR is the guest's IPv4 network behind a masquerade binding. Default: 10.0.2.0/24.
	VMNetworkCIDR string `json:"vmNetworkCIDR,omitempty"`
	// VMIPv6NetworkCIDR is the guest's IPv6 network behind a masquerade binding. Default: fd10:0:2::/120.
	VMIPv6NetworkCIDR string `json:"vmIPv6NetworkCIDR,omitempty"`
}
