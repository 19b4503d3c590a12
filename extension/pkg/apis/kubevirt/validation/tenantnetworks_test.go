// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

func ovn(cidr string) api.TenantNetwork {
	return api.TenantNetwork{Name: "a", OVN: &api.VirtualNetwork{CIDR: cidr}}
}

func kubeOVN(cidr string) api.TenantNetwork {
	return api.TenantNetwork{Name: "b", KubeOVN: &api.VirtualNetwork{CIDR: cidr}}
}

func TestValidateTenantNetwork(t *testing.T) {
	t.Parallel()

	byDefault, both := ovn("10.1.0.0/16"), ovn("10.1.0.0/16")
	byDefault.Default = true
	both.Config = `{"type": "bridge"}`

	for name, tc := range map[string]struct {
		network api.TenantNetwork
		field   string
		remedy  string
	}{
		"ovn":           {network: ovn("10.1.0.0/16")},
		"kubeOVN":       {network: kubeOVN("10.1.0.0/29")},
		"nothing":       {network: api.TenantNetwork{Name: "a"}, field: ".config", remedy: "set one of config, kubeOVN and ovn"},
		"two":           {network: both, field: ".ovn", remedy: "set one of config, kubeOVN and ovn"},
		"default":       {network: byDefault, field: ".default", remedy: "remove default"},
		"no range":      {network: ovn(""), field: ".ovn.cidr", remedy: "must be an IPv4 network"},
		"address":       {network: kubeOVN("10.1.0.1/16"), field: ".kubeOVN.cidr", remedy: "must be an IPv4 network"},
		"IPv6":          {network: ovn("fd00::/64"), field: ".ovn.cidr", remedy: "must be an IPv4 network"},
		"few addresses": {network: ovn("10.1.0.0/30"), field: ".ovn.cidr", remedy: "at least eight addresses"},
	} {
		errs := validation.ValidateInfrastructureConfig(&api.InfrastructureConfig{Networks: api.NetworksConfig{TenantNetworks: []api.TenantNetwork{tc.network}}}, field.NewPath("infra"))
		if tc.field == "" {
			require.Empty(t, errs, name)

			continue
		}

		require.Len(t, errs, 1, name)
		require.Equal(t, "infra.networks.tenantNetworks[0]"+tc.field, errs[0].Field, name)
		require.Contains(t, errs[0].Detail, tc.remedy, name)
	}
}

// TestValidateNetworking_VirtualRanges compares the ranges with those of the Shoot and with each other.
func TestValidateNetworking_VirtualRanges(t *testing.T) {
	t.Parallel()

	networking := &gardencorev1beta1.Networking{Pods: ptr.To("100.96.0.0/11"), Services: ptr.To("100.64.0.0/13"), Nodes: ptr.To("10.244.0.0/16")}

	for name, tc := range map[string]struct {
		networks []api.TenantNetwork
		with     string
	}{
		"separate":   {networks: []api.TenantNetwork{ovn("10.1.0.0/16"), kubeOVN("10.2.0.0/16")}},
		"pods":       {networks: []api.TenantNetwork{ovn("100.100.0.0/16")}, with: "spec.networking.pods (100.96.0.0/11)"},
		"services":   {networks: []api.TenantNetwork{kubeOVN("100.64.0.0/10")}, with: "spec.networking."},
		"nodes":      {networks: []api.TenantNetwork{ovn("10.244.1.0/24")}, with: "spec.networking.nodes (10.244.0.0/16)"},
		"each other": {networks: []api.TenantNetwork{ovn("10.1.0.0/16"), kubeOVN("10.1.2.0/24")}, with: "tenantNetworks[0].ovn.cidr (10.1.0.0/16)"},
	} {
		errs := validation.ValidateNetworking(networking, &api.InfrastructureConfig{Networks: api.NetworksConfig{TenantNetworks: tc.networks}})
		if tc.with == "" {
			require.Empty(t, errs, name)

			continue
		}

		require.NotEmpty(t, errs, name)
		require.Contains(t, errs[0].Field, ".cidr", name)
		require.Contains(t, errs[0].Detail, "must not overlap with ", name)
		require.Contains(t, errs[0].Detail, tc.with, name)
	}
}

func TestValidateVirtualNetworkUpdate(t *testing.T) {
	t.Parallel()

	cni := api.TenantNetwork{Name: "c", Config: `{"type": "bridge"}`}
	changed := api.TenantNetwork{Name: "c", Config: `{"type": "macvlan"}`}
	old := []api.TenantNetwork{ovn("10.1.0.0/16"), cni}

	require.Empty(t, validation.ValidateVirtualNetworkUpdate([]api.TenantNetwork{changed, kubeOVN("10.2.0.0/16"), ovn("10.1.0.0/16")}, old, nil))

	for _, networks := range [][]api.TenantNetwork{{ovn("10.2.0.0/16")}, {{Name: "a", Config: cni.Config}}, {{Name: "a", KubeOVN: &api.VirtualNetwork{CIDR: "10.1.0.0/16"}}}} {
		errs := validation.ValidateVirtualNetworkUpdate(networks, old, field.NewPath("tenantNetworks"))
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], "add a network with another name")
	}
}

func TestValidateTenantNetworks_Allowed(t *testing.T) {
	t.Parallel()

	networks := []api.TenantNetwork{{Name: "c", Config: "{}"}, ovn("10.1.0.0/16")}

	require.Empty(t, validation.ValidateTenantNetworks(networks, nil, nil))
	require.Len(t, validation.ValidateTenantNetworks(networks, []api.TenantNetworkType{}, field.NewPath("tenantNetworks")), 2)

	errs := validation.ValidateTenantNetworks(networks, []api.TenantNetworkType{api.TenantNetworkOVN, api.TenantNetworkKubeOVN}, field.NewPath("tenantNetworks"))
	require.Len(t, errs, 1)
	require.Equal(t, "tenantNetworks[0]", errs[0].Field)
	require.ErrorContains(t, errs[0], "does not allow tenant networks with config; use ovn or kubeOVN, or ask the operator to add it to providerConfig.tenantNetworks")

	require.Len(t, validation.ValidateTenantNetworkTypes([]api.TenantNetworkType{"config", "vlan"}, field.NewPath("tenantNetworks")), 1)
}
