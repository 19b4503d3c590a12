// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// networkObjects returns the objects of a tenant network, in the order of their creation. All have the same name; machines
// use the NetworkAttachmentDefinition, which OVN-Kubernetes creates itself for a UserDefinedNetwork.
func networkObjects(n *api.TenantNetwork, namespace, name string) []*unstructured.Unstructured {
	switch n.Type() {
	case api.TenantNetworkOVN:
		return []*unstructured.Unstructured{newObject(providercluster.UserDefinedNetwork, namespace, name, map[string]any{
			"topology": "Layer2",
			"layer2": map[string]any{
				"role":    "Secondary",
				"subnets": []any{n.OVN.CIDR},
				// A machine keeps its address when it restarts or migrates.
				"ipam": map[string]any{"lifecycle": "Persistent"},
			},
		})}
	case api.TenantNetworkKubeOVN:
		// Kube-OVN finds the Subnet of a NetworkAttachmentDefinition by the provider.
		provider := name + "." + namespace + ".ovn"

		return []*unstructured.Unstructured{
			newObject(providercluster.VPC, "", name, map[string]any{"namespaces": []any{namespace}}),
			newObject(providercluster.Subnet, "", name, map[string]any{
				"vpc":       name,
				"protocol":  "IPv4",
				"cidrBlock": n.KubeOVN.CIDR,
				"provider":  provider,
			}),
			newObject(providercluster.NetworkAttachmentDefinition, namespace, name, map[string]any{"config": fmt.Sprintf(
				`{"cniVersion":"0.3.1","type":"kube-ovn","server_socket":"/run/openvswitch/kube-ovn-daemon.sock","provider":%q}`, provider)}),
		}
	default:
		return []*unstructured.Unstructured{newObject(providercluster.NetworkAttachmentDefinition, namespace, name, map[string]any{"config": n.Config})}
	}
}

func newObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)

	return object
}

// contentOf returns the text whose checksum replaces machines when it changes.
func contentOf(n *api.TenantNetwork) string {
	switch n.Type() {
	case api.TenantNetworkOVN:
		return fmt.Sprintf(`{"ovn":%q}`, n.OVN.CIDR)
	case api.TenantNetworkKubeOVN:
		return fmt.Sprintf(`{"kubeOVN":%q}`, n.KubeOVN.CIDR)
	default:
		return n.Config
	}
}

// networkKinds returns the kinds of the objects of the shoot's tenant networks, in the order of their deletion.
func (f *flow) networkKinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{providercluster.NetworkAttachmentDefinition}
	types := f.virtualNetworks()

	if slices.Contains(types, api.TenantNetworkOVN) {
		kinds = append(kinds, providercluster.UserDefinedNetwork)
	}

	if slices.Contains(types, api.TenantNetworkKubeOVN) {
		kinds = append(kinds, providercluster.Subnet, providercluster.VPC)
	}

	return kinds
}

// virtualNetworks returns the types of virtual networks that the shoot has or had, in order.
func (f *flow) virtualNetworks() []api.TenantNetworkType {
	types := slices.Clone(f.state.VirtualNetworks)

	for i := range f.config.Networks.TenantNetworks {
		if t := f.config.Networks.TenantNetworks[i].Type(); t == api.TenantNetworkOVN || t == api.TenantNetworkKubeOVN {
			types = append(types, t)
		}
	}

	slices.Sort(types)

	return slices.Compact(types)
}

func isNamespaced(kind schema.GroupVersionKind) bool {
	return kind != providercluster.VPC && kind != providercluster.Subnet
}

// checkTenantNetwork returns a fault if the CloudProfile does not allow the tenant network with an index.
func (f *flow) checkTenantNetwork(i int) []fault {
	tenant := &f.config.Networks.TenantNetworks[i]
	if f.profile.TenantNetworks == nil || slices.Contains(f.profile.TenantNetworks, tenant.Type()) {
		return nil
	}

	return []fault{{
		gardencorev1beta1.ErrorRetryableConfigurationProblem, configPath().Child("networks", "tenantNetworks").Index(i),
		validation.NotAllowed(tenant, f.profile.TenantNetworks),
	}}
}
