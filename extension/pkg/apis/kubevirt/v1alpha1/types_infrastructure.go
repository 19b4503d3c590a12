// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// InfrastructureConfig is spec.provider.infrastructureConfig of a Shoot: the networks, namespace
// and isolation of its machines in the provider cluster.
//
// +kubebuilder:object:root=true
type InfrastructureConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Networks are the networks of the machines. Default: only the pod network of the provider
	// cluster.
	Networks NetworksConfig `json:"networks,omitempty"`
	// Namespace configures the namespace of the machines. Default: the namespace of the kubeconfig.
	Namespace *NamespaceConfig `json:"namespace,omitempty"`
	// Isolation configures NetworkPolicies for the machines. Default: none.
	Isolation *IsolationConfig `json:"isolation,omitempty"`
}

// NetworksConfig are the networks of a shoot's machines.
type NetworksConfig struct {
	// Pod configures the connection of the machines to the pod network of the provider cluster. It must
	// not be set if a tenant network is the default. Default: podNetwork of the CloudProfileConfig when the
	// Shoot was created.
	Pod *PodNetwork `json:"pod,omitempty"`
	// SharedNetworks are NetworkAttachmentDefinitions of the provider cluster that exist and that
	// several shoots may use. They are never changed.
	SharedNetworks []SharedNetwork `json:"sharedNetworks,omitempty"`
	// TenantNetworks are NetworkAttachmentDefinitions that are created, updated and deleted with the
	// shoot.
	TenantNetworks []TenantNetwork `json:"tenantNetworks,omitempty"`
}

// PodNetwork configures the connection of machines to the pod network of the provider cluster.
type PodNetwork struct {
	// Binding is bridge, masquerade, passt, or the name of a network binding plugin that is registered in
	// the provider's KubeVirt resource. A change replaces the machines. Default: bridge.
	Binding string `json:"binding,omitempty"`
	// AllowBridgeLiveMigration allows the live migration of machines with the binding bridge. Set it only
	// if the pod network keeps the addresses of machines, as those of Kube-OVN and OVN-Kubernetes do. A
	// change replaces no machines, and applies to new ones.
	AllowBridgeLiveMigration bool `json:"allowBridgeLiveMigration,omitempty"`
}

// The bindings of KubeVirt. Other names are those of plugins.
const (
	BindingBridge     = "bridge"
	BindingMasquerade = "masquerade"
	BindingPasst      = "passt"
)

// SharedNetwork refers to a NetworkAttachmentDefinition of the provider cluster.
type SharedNetwork struct {
	// Name is the name of the NetworkAttachmentDefinition.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Namespace is its namespace. Default: the namespace of the machines.
	Namespace string `json:"namespace,omitempty"`

	Attachment `json:",inline"`
}

// TenantNetwork is a network that only this shoot uses.
type TenantNetwork struct {
	// Name is the name of the network, unique in the shoot. The NetworkAttachmentDefinition is named
	// after the shoot's technical ID and this name.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Config is the CNI configuration of the network, in JSON. Exactly one of config, kubeOVN and ovn is
	// required.
	Config string `json:"config,omitempty"`
	// KubeOVN is a network of Kube-OVN: a Subnet in a Vpc of its own. It cannot be the default, since it has no
	// route to other networks.
	KubeOVN *VirtualNetwork `json:"kubeOVN,omitempty"`
	// OVN is a network of OVN-Kubernetes: a UserDefinedNetwork. It cannot be the default, since it has no route
	// to other networks.
	OVN *VirtualNetwork `json:"ovn,omitempty"`
	// Default makes this network the machines' primary network instead of the pod network of the
	// provider cluster. At most one network can be the default.
	Default bool `json:"default,omitempty"`

	Attachment `json:",inline"`
}

// VirtualNetwork is a network that the network plugin of the provider cluster creates.
type VirtualNetwork struct {
	// CIDR is the IPv4 range of the network, such as 10.100.0.0/16. The network plugin assigns an address to each
	// machine. The range must not overlap with the networks of the Shoot. It cannot be changed: to have another
	// range, add a network with another name, and remove this one.
	// +kubebuilder:validation:Required
	CIDR string `json:"cidr"`
}

// TenantNetworkType is the field of a TenantNetwork that describes it.
// +kubebuilder:validation:Enum=config;kubeOVN;ovn
type TenantNetworkType string

// The types of tenant networks.
const (
	TenantNetworkConfig  TenantNetworkType = "config"
	TenantNetworkKubeOVN TenantNetworkType = "kubeOVN"
	TenantNetworkOVN     TenantNetworkType = "ovn"
)

// Type returns the type of the network; empty if it has none.
func (n *TenantNetwork) Type() TenantNetworkType {
	switch {
	case n.KubeOVN != nil:
		return TenantNetworkKubeOVN
	case n.OVN != nil:
		return TenantNetworkOVN
	case n.Config != "":
		return TenantNetworkConfig
	default:
		return ""
	}
}

// Attachment configures how the machines are connected to a network.
type Attachment struct {
	// Binding is a network binding plugin that is registered in the provider's KubeVirt resource.
	// Default: a bridge.
	Binding *kubevirtv1.PluginBinding `json:"binding,omitempty"`
	// MAC can be Stable: the MAC address is derived from the Machine's UID and the network's name, and
	// does not change when the machine restarts. The default network must not have this field.
	MAC providerspec.MACPolicy `json:"mac,omitempty"`
}

// NamespaceConfig configures the namespace of a shoot's machines.
type NamespaceConfig struct {
	// Create creates a namespace for the shoot in the provider cluster, named with its technical ID,
	// and deletes it with the shoot. The kubeconfig needs the permissions of
	// extension/kubernetes/namespace-per-shoot. The field cannot be changed after creation.
	Create bool `json:"create,omitempty"`
}

// IsolationConfig configures NetworkPolicies for a shoot's machines.
type IsolationConfig struct {
	// Enabled restricts the machines on the pod network to connections with each other, with
	// allowedCIDRs and to public addresses. Two exceptions are open for all addresses: port 53
	// (egress, for DNS) and ports 30000-32767 (ingress, for load balancers). Tenant and shared
	// networks are not restricted. NetworkPolicies are additive: if the shoot has no namespace of its
	// own, set up its namespace with extension/kubernetes/provider-namespace-isolated.
	Enabled bool `json:"enabled,omitempty"`
	// AllowedCIDRs are networks that machines can also reach and be reached from, such as the network
	// of a private API server or registry.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// InfrastructureStatus is status.providerStatus of an Infrastructure: the namespace and networks in
// the provider cluster, for the Worker.
//
// +kubebuilder:object:root=true
type InfrastructureStatus struct {
	metav1.TypeMeta `json:",inline"`

	// Namespace is the namespace of the machines in the provider cluster.
	Namespace string `json:"namespace,omitempty"`
	// Evacuation is set if the driver evacuates the machines when their provider node is drained: the account
	// has the permissions, or had them when existing machines were created.
	Evacuation bool `json:"evacuation,omitempty"`
	// EvacuationDenied is set if evacuation is set, but the account has lost the permissions: KubeVirt evacuates
	// new machines, as without evacuation.
	EvacuationDenied bool `json:"evacuationDenied,omitempty"`
	// PodNetwork is the connection of the machines to the pod network. Default: a bridge.
	PodNetwork *PodNetwork `json:"podNetwork,omitempty"`
	// Networks are the networks of the machines.
	Networks []NetworkStatus `json:"networks,omitempty"`
}

// NetworkStatus is a network of a shoot's machines.
type NetworkStatus struct {
	// Name is the NetworkAttachmentDefinition, as "name" or "namespace/name".
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Default is set if the network replaces the pod network of the provider cluster.
	Default bool `json:"default,omitempty"`
	// SHA is the SHA-256 checksum of the network's CNI configuration, in hexadecimal digits. When it
	// changes, machines are replaced.
	SHA string `json:"sha,omitempty"`

	Attachment `json:",inline"`
}

// InfrastructureState is status.state of an Infrastructure: what the extension must know when the control
// plane has moved to another seed. Gardener copies it there.
//
// +kubebuilder:object:root=true
type InfrastructureState struct {
	metav1.TypeMeta `json:",inline"`

	// Evacuation and EvacuationDenied are those of the status.
	Evacuation       bool `json:"evacuation,omitempty"`
	EvacuationDenied bool `json:"evacuationDenied,omitempty"`
	// DefaultPodNetwork is podNetwork of the CloudProfileConfig when the Shoot was created. Later changes
	// of the CloudProfileConfig do not replace its machines.
	DefaultPodNetwork *PodNetwork `json:"defaultPodNetwork,omitempty"`
	// VirtualNetworks are the types of networks of network plugins of which objects may exist in the provider
	// cluster. They are recorded before the first object is created.
	VirtualNetworks []TenantNetworkType `json:"virtualNetworks,omitempty"`
	// Networks are the networks of the machines.
	Networks []NetworkState `json:"networks,omitempty"`
}

// NetworkState is the content for which the checksum of a network was determined.
type NetworkState struct {
	// Name is the name of the network in the status.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// SHA is the checksum of the network in the status. It is kept while the content is the same.
	// +kubebuilder:validation:Required
	SHA string `json:"sha"`
	// ContentSHA is the SHA-256 checksum of the CNI configuration as JSON with sorted fields and without
	// white space, in hexadecimal digits.
	ContentSHA string `json:"contentSHA,omitempty"`
}
