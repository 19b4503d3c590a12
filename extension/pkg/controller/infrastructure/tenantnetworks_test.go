// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"slices"
	"strings"
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// virtual returns the tenant networks "ovn" and "vpc" of network plugins.
func virtual() []api.TenantNetwork {
	return []api.TenantNetwork{
		{Name: "ovn", OVN: &api.VirtualNetwork{CIDR: "10.110.0.0/16"}},
		{Name: "vpc", KubeOVN: &api.VirtualNetwork{CIDR: "10.120.0.0/16"}},
	}
}

// object reads an object of a network from the provider cluster; nil if it does not exist.
func (l *landscape) object(t *testing.T, kind schema.GroupVersionKind, network string) *unstructured.Unstructured {
	t.Helper()

	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)

	key := client.ObjectKey{Namespace: namespace, Name: technicalID + "-" + network}
	if !isNamespaced(kind) {
		key = client.ObjectKey{Name: newFlow(l.provider, l.infra, l.cluster).clusterName(key.Name)}
	}

	if err := l.provider.Get(t.Context(), key, object); err != nil {
		require.NoError(t, client.IgnoreNotFound(err))

		return nil
	}

	return object
}

// TestReconcileTenantNetwork_Virtual creates the objects of network plugins, keeps what the plugins add, and deletes them
// with the network.
func TestReconcileTenantNetwork_Virtual(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(virtual()...))
	networks := l.reconcile(t).Networks
	require.Equal(t, []string{namespace + "/" + technicalID + "-ovn", namespace + "/" + technicalID + "-vpc"}, []string{networks[0].Name, networks[1].Name})

	require.Equal(t, map[string]any{
		"topology": "Layer2",
		"layer2":   map[string]any{"role": "Secondary", "subnets": []any{"10.110.0.0/16"}, "ipam": map[string]any{"lifecycle": "Persistent"}},
	}, l.object(t, providercluster.UserDefinedNetwork, "ovn").Object["spec"])
	require.Nil(t, l.object(t, providercluster.NetworkAttachmentDefinition, "ovn"), "OVN-Kubernetes creates it")

	subnet := l.object(t, providercluster.Subnet, "vpc")
	require.Equal(t, "10.120.0.0/16", subnet.Object["spec"].(map[string]any)["cidrBlock"])
	require.Equal(t, true, subnet.Object["spec"].(map[string]any)["private"])
	require.Equal(t, map[string]any{}, l.object(t, providercluster.VPC, "vpc").Object["spec"], "its namespaces would exclude the Subnets of the namespace")
	require.Equal(t, l.object(t, providercluster.VPC, "vpc").GetName(), subnet.Object["spec"].(map[string]any)["vpc"])
	require.Contains(t, configOf(l.object(t, providercluster.NetworkAttachmentDefinition, "vpc")), `"provider":"`+technicalID+"-vpc."+namespace+`.ovn"`)

	require.NoError(t, unstructured.SetNestedField(subnet.Object, "10.120.0.1", "spec", "gateway"))
	require.NoError(t, l.provider.Update(t.Context(), subnet))

	l.writes = 0
	require.Equal(t, networks, l.reconcile(t).Networks)
	require.Zero(t, l.writes, "Kube-OVN sets the gateway")

	l.configure(t, config())
	l.reconcile(t)

	for kind, network := range map[schema.GroupVersionKind]string{
		providercluster.UserDefinedNetwork: "ovn", providercluster.Subnet: "vpc", providercluster.VPC: "vpc", providercluster.NetworkAttachmentDefinition: "vpc",
	} {
		require.Nil(t, l.object(t, kind, network), kind.Kind)
	}
}

// TestDelete_VirtualNetworks waits for the machines of a network, and deletes its objects, also those in no namespace.
func TestDelete_VirtualNetworks(t *testing.T) {
	t.Parallel()

	machine := machineIn("vpc")
	l := newLandscape(t, config(virtual()...), machine)
	l.reconcile(t)

	require.ErrorContains(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "still use the networks")
	require.NotNil(t, l.object(t, providercluster.VPC, "vpc"))
	require.Nil(t, l.object(t, providercluster.UserDefinedNetwork, "ovn"))

	require.NoError(t, l.provider.Delete(t.Context(), machine))
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Nil(t, l.object(t, providercluster.VPC, "vpc"))
	require.Nil(t, l.object(t, providercluster.Subnet, "vpc"))
}

// machineIn returns a virtual machine in a network of the shoot.
func machineIn(network string) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{providerspec.TagCluster: technicalID}},
		Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{
			Networks: []kubevirtv1.Network{{Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: namespace + "/" + technicalID + "-" + network}}}},
		}}},
	}
}

// TestReconcile_RecordsVirtualNetworks records the types of networks before their first object: if the creation fails halfway,
// and the network is removed from the Shoot, its objects are deleted.
func TestReconcile_RecordsVirtualNetworks(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(virtual()[1]))
	l.offerBinding("masquerade")

	writes := 0
	l.beforeWrite = func() error {
		if writes++; writes > 2 {
			return named(apierrors.NewForbidden(schema.GroupResource{Resource: "subnets"}, "vpc", errUser))
		}

		return nil
	}
	require.Error(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.NotNil(t, l.object(t, providercluster.VPC, "vpc"), "the Subnet was refused")

	l.beforeWrite = nil
	require.NoError(t, l.actuator.seed.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra))
	l.configure(t, config())
	require.Equal(t, "masquerade", l.reconcile(t).PodNetwork.Binding, "the default of the first attempt")
	require.Nil(t, l.object(t, providercluster.VPC, "vpc"))

	l.reconcile(t)

	state := &api.InfrastructureState{}
	require.Empty(t, api.Decode(l.infra.Status.State, nil, state))
	require.Empty(t, state.VirtualNetworks, "nothing is left, so that the account does not need the permissions any more")
}

// TestDeleteNetworks_Order deletes a Subnet before its Vpc, which Kube-OVN keeps until then.
func TestDeleteNetworks_Order(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(virtual()...))
	l.reconcile(t)

	kinds := newFlow(l.provider, l.infra, l.cluster).networkKinds()
	require.Less(t, slices.Index(kinds, providercluster.Subnet), slices.Index(kinds, providercluster.VPC))
	require.Less(t, slices.Index(kinds, providercluster.NetworkAttachmentDefinition), slices.Index(kinds, providercluster.Subnet))
}

// TestReconcileTenantNetwork_Range refuses another range or type of a network that machines still use, after the network was
// removed from the Shoot.
func TestReconcileTenantNetwork_Range(t *testing.T) {
	t.Parallel()

	for name, other := range map[string]api.TenantNetwork{
		"ovn":     {Name: "ovn", OVN: &api.VirtualNetwork{CIDR: "10.77.0.0/16"}},
		"vpc":     {Name: "vpc", KubeOVN: &api.VirtualNetwork{CIDR: "10.77.0.0/16"}},
		"another": {Name: "vpc", OVN: &api.VirtualNetwork{CIDR: "10.120.0.0/16"}},
		"config":  {Name: "vpc", Config: bridge},
	} {
		l := newLandscape(t, config(virtual()...), machineIn(other.Name))
		l.reconcile(t)
		l.configure(t, config())
		l.reconcile(t)

		l.configure(t, config(other))
		l.writes = 0

		err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
		require.ErrorContains(t, err, "spec.provider.infrastructureConfig.networks.tenantNetworks[0]: ", name)
		require.ErrorContains(t, err, "use another name", name)
		require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err), name)
		require.Zero(t, l.writes, name)
	}
}

// TestCheckReady reports networks that the network plugin refuses: new ones as an error, and those of running machines to the
// health check.
func TestCheckReady(t *testing.T) {
	t.Parallel()

	report := func(object *unstructured.Unstructured, status string) {
		require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{
			map[string]any{"type": "NetworkCreated", "status": status, "reason": "SyncError", "message": "the NetworkAttachmentDefinition exists"},
		}, "status", "conditions"))
	}

	l := newLandscape(t, config(virtual()[0]))
	l.reconcile(t)
	require.Empty(t, newFlow(l.provider, l.infra, l.cluster).checkVirtualNetworks(t.Context()), "it has not reported yet")

	network := l.object(t, providercluster.UserDefinedNetwork, "ovn")

	for status, faults := range map[string]int{"False": 1, "True": 0, "Unknown": 0} {
		report(network, status)
		require.NoError(t, l.provider.Update(t.Context(), network))
		require.Len(t, newFlow(l.provider, l.infra, l.cluster).checkVirtualNetworks(t.Context()), faults, status)
	}

	report(network, "False")
	require.NoError(t, l.provider.Update(t.Context(), network))
	l.reconcile(t)
	require.ErrorContains(t, Findings(t.Context(), l.provider, l.infra, l.cluster), "SyncError the NetworkAttachmentDefinition exists")

	l.infra.Status.State = nil
	l.infra.Status.ProviderStatus = nil
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "SyncError the NetworkAttachmentDefinition exists", "a new network")

	require.NoError(t, l.provider.Delete(t.Context(), network))
	require.ErrorContains(t, Findings(t.Context(), l.provider, l.infra, l.cluster), "does not have UserDefinedNetwork")
}

// TestClusterName is unique for a landscape, a shoot and a network, and short enough for a label.
func TestClusterName(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config())
	f := newFlow(l.provider, l.infra, l.cluster)
	other := newFlow(l.provider, l.infra, l.cluster)
	other.owner.UID = "another"

	require.NotEqual(t, f.clusterName("a-b"), other.clusterName("a-b"))
	require.NotEqual(t, f.clusterName("a"), f.clusterName("b"))

	long := strings.Repeat("a", 80)
	require.Len(t, f.clusterName(long), 63)
	require.NotEqual(t, f.clusterName(long), f.clusterName(long+"b"))
}

// TestCheckPermissions_KubeOVN names the folder with the permissions for objects in no namespace.
func TestCheckPermissions_KubeOVN(t *testing.T) {
	t.Parallel()

	for resource, folder := range map[string]string{"vpcs": "apply extension/kubernetes/kube-ovn", "userdefinednetworks": "apply extension/kubernetes/provider-namespace"} {
		state := healthy()
		state.denied[resource] = true

		l := newLandscape(t, config(virtual()...))
		faults, err := newFlow(state.cluster(), l.infra, l.cluster).checkPermissions(t.Context())
		require.NoError(t, err)
		require.Len(t, faults, 1, resource)
		require.Contains(t, faults[0].detail, folder, resource)
	}
}

// TestDecodeProfile_Invalid offers no networks if the CloudProfile cannot be read, and adopts no default.
func TestDecodeProfile_Invalid(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")))
	l.reconcile(t)

	invalid := &runtime.RawExtension{Raw: []byte(`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "CloudProfileConfig", "podNetwork": "passt"}`)}
	l.cluster.CloudProfile.Spec.ProviderConfig = invalid
	l.reconcile(t)

	l.configure(t, config(tenant("a"), tenant("b")))
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "does not allow tenant networks")

	l = newLandscape(t, config())
	l.cluster.CloudProfile.Spec.ProviderConfig = invalid
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "read the default of networks.pod: CloudProfile.spec.providerConfig")
	require.Zero(t, l.writes)
}

// TestCheckTenantNetwork refuses types that the CloudProfile does not allow, except for networks that exist.
func TestCheckTenantNetwork(t *testing.T) {
	t.Parallel()

	allow := func(l *landscape, types string) {
		l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "CloudProfileConfig", "machineImages": [], "tenantNetworks": ` + types + `}`)}
	}

	for types, remedy := range map[string]string{`["ovn", "config"]`: "", `["kubeOVN"]`: "use kubeOVN, or ask the operator", `[]`: "providerConfig.sharedNetworks"} {
		l := newLandscape(t, config(tenant("a")))
		allow(l, types)

		err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
		if remedy == "" {
			require.NoError(t, err, types)

			allow(l, `[]`)
			l.reconcile(t)

			changed := tenant("a")
			changed.Config = `{"type": "macvlan"}`
			l.configure(t, config(changed))
			require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "does not allow tenant networks with config")

			continue
		}

		require.ErrorContains(t, err, "spec.provider.infrastructureConfig.networks.tenantNetworks[0]: the CloudProfile does not allow tenant networks with config", types)
		require.ErrorContains(t, err, remedy, types)
		require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err), types)
	}
}

// TestReconcileTenantNetwork_Taken refuses a network with the name of another shoot's network, before it creates an object:
// "a-b" of the shoot "c" has the name of "b" of the shoot "c-a". The remedy is not to delete it.
func TestReconcileTenantNetwork_Taken(t *testing.T) {
	t.Parallel()

	ofOther := map[string]string{kubevirt.LabelShoot: technicalID + "-a"}

	for name, other := range map[string]func(string) []client.Object{
		"of a configuration": func(name string) []client.Object { return []client.Object{network(namespace, name, bridge, ofOther)} },
		"of OVN-Kubernetes": func(name string) []client.Object {
			source, attachment := derived(name, ofOther)

			return []client.Object{source, attachment}
		},
	} {
		for _, tenant := range []api.TenantNetwork{
			{Name: "a-b", Config: bridge},
			{Name: "a-b", OVN: &api.VirtualNetwork{CIDR: "10.110.0.0/16"}},
			{Name: "a-b", KubeOVN: &api.VirtualNetwork{CIDR: "10.120.0.0/16"}},
		} {
			l := newLandscape(t, config(tenant), other(technicalID+"-a-b")...)

			err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
			require.ErrorContains(t, err, "belongs to another ", "%s, %s", name, tenant.Type())
			require.ErrorContains(t, err, "another name", "%s, %s", name, tenant.Type())
			require.NotContains(t, err.Error(), "delete it", "%s, %s", name, tenant.Type())
			require.Zero(t, l.writes, "%s, %s", name, tenant.Type())
		}
	}
}

// TestCheckDerived reports a network with the name of this one that was created later.
func TestCheckDerived(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(virtual()[0]))
	l.reconcile(t)
	require.NoError(t, Findings(t.Context(), l.provider, l.infra, l.cluster))

	require.NoError(t, l.provider.Create(t.Context(), network(namespace, technicalID+"-ovn", bridge, nil)))
	require.ErrorContains(t, Findings(t.Context(), l.provider, l.infra, l.cluster), "belongs to another network")
}
