// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
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

	key := client.ObjectKey{Name: technicalID + "-" + network}
	if isNamespaced(kind) {
		key.Namespace = namespace
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
	require.Equal(t, technicalID+"-vpc", l.object(t, providercluster.VPC, "vpc").GetName())
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

	machine := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{providerspec.TagCluster: technicalID}},
		Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{
			Networks: []kubevirtv1.Network{{Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: namespace + "/" + technicalID + "-vpc"}}}},
		}}},
	}
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

			continue
		}

		require.ErrorContains(t, err, "spec.provider.infrastructureConfig.networks.tenantNetworks[0]: the CloudProfile does not allow tenant networks with config", types)
		require.ErrorContains(t, err, remedy, types)
		require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err), types)
	}
}
