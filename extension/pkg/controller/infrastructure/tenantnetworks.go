// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// networkName returns the name of a tenant network in the namespace of the machines.
func (f *flow) networkName(n *api.TenantNetwork) string { return f.owner.TechnicalID + "-" + n.Name }

// maxClusterName bounds the names of objects in no namespace: Kube-OVN uses them as values of labels.
const maxClusterName = 63

// clusterName returns the name of the objects of a tenant network that are in no namespace. Other landscapes can have a Shoot
// with the same technical ID, and other Shoots a network with the same name: it contains a hash of both, and of the UID.
func (f *flow) clusterName(name string) string {
	sum := sha256.Sum256([]byte(string(f.owner.UID) + "/" + f.namespace + "/" + name))
	hash := hex.EncodeToString(sum[:4])

	return name[:min(len(name), maxClusterName-1-len(hash))] + "-" + hash
}

// networkObjects returns the objects of a tenant network, in the order of their creation. Machines use the
// NetworkAttachmentDefinition, which OVN-Kubernetes creates itself for a UserDefinedNetwork.
func (f *flow) networkObjects(n *api.TenantNetwork) []*unstructured.Unstructured {
	name := f.networkName(n)
	namespace := f.namespace

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
		vpc := f.clusterName(name)

		return []*unstructured.Unstructured{
			// It is first, and reserves the provider: with a second Subnet, Kube-OVN could connect machines of another shoot to it.
			newObject(providercluster.NetworkAttachmentDefinition, namespace, name, map[string]any{"config": fmt.Sprintf(
				`{"cniVersion":"0.3.1","type":"kube-ovn","server_socket":"/run/openvswitch/kube-ovn-daemon.sock","provider":%q}`, provider)}),
			newObject(providercluster.VPC, "", vpc, map[string]any{}),
			newObject(providercluster.Subnet, "", vpc, map[string]any{
				"vpc":       vpc,
				"protocol":  "IPv4",
				"cidrBlock": n.KubeOVN.CIDR,
				"provider":  provider,
				"private":   true,
			}),
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

// virtualNetworks returns the types of virtual networks of which the shoot has objects, or will have, in order.
func (f *flow) virtualNetworks() []api.TenantNetworkType {
	return f.withConfigured(f.state.VirtualNetworks)
}

// withConfigured adds the types of the configuration to types of virtual networks.
func (f *flow) withConfigured(types []api.TenantNetworkType) []api.TenantNetworkType {
	types = slices.Clone(types)

	for i := range f.config.Networks.TenantNetworks {
		if t := f.config.Networks.TenantNetworks[i].Type(); isVirtual(t) {
			types = append(types, t)
		}
	}

	slices.Sort(types)

	return slices.Compact(types)
}

func isVirtual(t api.TenantNetworkType) bool {
	return t == api.TenantNetworkOVN || t == api.TenantNetworkKubeOVN
}

// typeOf returns the type of the networks that have objects of a kind.
func typeOf(kind schema.GroupVersionKind) api.TenantNetworkType {
	switch kind {
	case providercluster.UserDefinedNetwork:
		return api.TenantNetworkOVN
	case providercluster.Subnet, providercluster.VPC:
		return api.TenantNetworkKubeOVN
	default:
		return api.TenantNetworkConfig
	}
}

func isNamespaced(kind schema.GroupVersionKind) bool {
	return kind != providercluster.VPC && kind != providercluster.Subnet
}

func tenantPath(i int) *field.Path { return configPath().Child("networks", "tenantNetworks").Index(i) }

// checkTenantNetwork returns a fault if the CloudProfile does not allow the tenant network with an index, or if its content
// reaches networks of other shoots, unless it exists with the same content.
func (f *flow) checkTenantNetwork(i int) []fault {
	tenant := &f.config.Networks.TenantNetworks[i]
	content := contentOf(tenant)

	known := f.known[f.namespace+"/"+f.networkName(tenant)]
	if known.SHA != "" && (known.SHA == checksum(content) || known.ContentSHA == checksum(canonical(content))) {
		return nil
	}

	detail := validation.NotAllowed(tenant, f.profile.TenantNetworks)
	if detail == "" {
		return nil
	}

	return []fault{{gardencorev1beta1.ErrorRetryableConfigurationProblem, tenantPath(i), detail}}
}

// checkDerived returns a fault if OVN-Kubernetes cannot create the NetworkAttachmentDefinition of the tenant network with an
// index, since another one has its name: machines would use that one.
func (f *flow) checkDerived(ctx context.Context, i int) ([]fault, error) {
	tenant := &f.config.Networks.TenantNetworks[i]
	if tenant.Type() != api.TenantNetworkOVN {
		return nil, nil
	}

	network := newObject(providercluster.NetworkAttachmentDefinition, f.namespace, f.networkName(tenant), nil)

	err := f.provider.Get(ctx, client.ObjectKeyFromObject(network), network)
	if err != nil {
		return nil, wrap(client.IgnoreNotFound(err), "get NetworkAttachmentDefinition %s/%s", f.namespace, f.networkName(tenant))
	}

	if sourceOf(network) != nil {
		return nil, nil // That of the UserDefinedNetwork with this name, whose owner is checked.
	}

	return []fault{taken(i, network)}, nil
}

// taken is the fault of a tenant network with the name of another network, such as "a-b" of the shoot "c", and "b" of "c-a".
func taken(i int, network client.Object) fault {
	return fault{gardencorev1beta1.ErrorRetryableConfigurationProblem, tenantPath(i), fmt.Sprintf(
		"NetworkAttachmentDefinition %s of the provider cluster belongs to another network; use another name for the network",
		client.ObjectKeyFromObject(network))}
}

// checkRange returns a fault if an object of a virtual network exists with another content: network plugins cannot change it
// while machines use it.
func checkRange(i int, actual, desired *unstructured.Unstructured) []fault {
	have := rangeIn(actual)
	want := rangeIn(desired)
	if have == want {
		return nil
	}

	return []fault{{gardencorev1beta1.ErrorConfigurationProblem, tenantPath(i), fmt.Sprintf(
		"%s %s of the provider cluster exists with %s, and cannot be changed to %s; restore it, or use another name for the network",
		actual.GetKind(), actual.GetName(), have, want)}}
}

// rangeIn returns what an object of a virtual network cannot change.
func rangeIn(object *unstructured.Unstructured) string {
	switch object.GroupVersionKind() {
	case providercluster.UserDefinedNetwork:
		subnets, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "layer2", "subnets")

		return strings.Join(subnets, ",")
	case providercluster.Subnet:
		text, _, _ := unstructured.NestedString(object.Object, "spec", "cidrBlock")

		return text
	case providercluster.NetworkAttachmentDefinition:
		return configOf(object)
	default:
		return ""
	}
}

// checkVirtualNetworks returns a fault for each network that its network plugin does not have: machines could not start.
func (f *flow) checkVirtualNetworks(ctx context.Context) []fault {
	var faults []fault

	for i := range f.config.Networks.TenantNetworks {
		tenant := &f.config.Networks.TenantNetworks[i]
		if !isVirtual(tenant.Type()) {
			continue
		}

		if others, err := f.checkDerived(ctx, i); f.note(err) == nil {
			faults = append(faults, others...)
		}

		for _, object := range f.networkObjects(tenant) {
			err := f.note(f.provider.Get(ctx, client.ObjectKeyFromObject(object), object))

			switch {
			case apierrors.IsNotFound(err):
				faults = append(faults, fault{gardencorev1beta1.ErrorRetryableInfraDependencies, tenantPath(i), fmt.Sprintf(
					"the provider cluster does not have %s %s; reconcile the Shoot", object.GetKind(), object.GetName())})
			case err == nil:
				faults = append(faults, checkReady(i, object)...)
			}
		}
	}

	return faults
}

// checkReady returns a fault if a network plugin reports that a network does not work. A plugin that has not reported yet is
// not an error.
func checkReady(i int, object *unstructured.Unstructured) []fault {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")

	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["status"] != "False" || condition["type"] != "NetworkCreated" && condition["type"] != "Ready" {
			continue
		}

		return []fault{{gardencorev1beta1.ErrorRetryableInfraDependencies, tenantPath(i), fmt.Sprintf(
			"the network plugin of the provider cluster reports for %s %s: %v %v; correct the range, or ask the operator",
			object.GetKind(), object.GetName(), condition["reason"], condition["message"])}}
	}

	return nil
}
