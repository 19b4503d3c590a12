// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"cmp"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
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

	byDefault := ovn("10.1.0.0/16")
	both := ovn("10.1.0.0/16")
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
		"loopback":      {network: ovn("127.0.0.0/8"), field: ".ovn.cidr", remedy: "127.0.0.0/8, which is reserved"},
		"link-local":    {network: kubeOVN("169.254.20.0/24"), field: ".kubeOVN.cidr", remedy: "169.254.0.0/16, which is reserved"},
		"multicast":     {network: ovn("224.0.0.0/4"), field: ".ovn.cidr", remedy: "which is reserved"},
		"VPN":           {network: ovn("241.0.0.0/8"), field: ".ovn.cidr", remedy: "which is reserved"},
		"everything":    {network: ovn("0.0.0.0/0"), field: ".ovn.cidr", remedy: "which is reserved"},
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

// TestValidateNetworking_Ranges compares the ranges of guests with those of the Shoot and with each other.
func TestValidateNetworking_Ranges(t *testing.T) {
	t.Parallel()

	cni := api.TenantNetwork{Name: "c", Config: `{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.0.0/16"}}`}
	masquerade := &api.PodNetwork{Binding: api.BindingMasquerade}

	for name, tc := range map[string]struct {
		networks []api.TenantNetwork
		pod      *api.PodNetwork
		nodes    string
		field    string
		with     string
	}{
		"separate":         {networks: []api.TenantNetwork{ovn("10.1.0.0/16"), kubeOVN("10.2.0.0/16")}, pod: masquerade},
		"pods":             {networks: []api.TenantNetwork{ovn("100.100.0.0/16")}, field: "tenantNetworks[0].ovn.cidr", with: "spec.networking.pods (100.96.0.0/11)"},
		"services":         {networks: []api.TenantNetwork{kubeOVN("100.64.0.0/10")}, field: "tenantNetworks[0].kubeOVN.cidr", with: "spec.networking."},
		"nodes":            {networks: []api.TenantNetwork{ovn("10.244.1.0/24")}, field: "tenantNetworks[0].ovn.cidr", with: "spec.networking.nodes (10.244.0.0/16)"},
		"each other":       {networks: []api.TenantNetwork{ovn("10.1.0.0/16"), kubeOVN("10.1.2.0/24")}, field: "tenantNetworks[1].kubeOVN.cidr", with: "tenantNetworks[0].ovn.cidr (10.1.0.0/16)"},
		"CNI":              {networks: []api.TenantNetwork{ovn("10.1.0.0/16"), cni}, field: "tenantNetworks[0].ovn.cidr", with: "tenantNetworks[1].config (10.1.0.0/16)"},
		"CNI alone":        {networks: []api.TenantNetwork{cni}},
		"guests":           {networks: []api.TenantNetwork{ovn("10.0.0.0/16")}, pod: masquerade, field: "tenantNetworks[0].ovn.cidr", with: "networks.pod.binding (10.0.2.0/24)"},
		"guests and nodes": {pod: masquerade, nodes: "10.0.0.0/16", field: "networks.pod.binding", with: "spec.networking.nodes (10.0.0.0/16)"},
		"passt":            {pod: &api.PodNetwork{Binding: api.BindingPasst}, nodes: "10.0.0.0/16"},
	} {
		networking := &gardencorev1beta1.Networking{Pods: ptr.To("100.96.0.0/11"), Services: ptr.To("100.64.0.0/13"), Nodes: ptr.To(cmp.Or(tc.nodes, "10.244.0.0/16"))}

		errs := validation.ValidateNetworking(networking, &api.InfrastructureConfig{Networks: api.NetworksConfig{TenantNetworks: tc.networks}}, tc.pod)
		if tc.with == "" {
			require.Empty(t, errs, name)

			continue
		}

		require.NotEmpty(t, errs, name)
		require.Contains(t, errs[0].Field, "spec.provider.infrastructureConfig.networks.", name)
		require.Contains(t, errs[0].Field, tc.field, name)
		require.Contains(t, errs[0].Detail, "must not overlap with ", name)
		require.Contains(t, errs[0].Detail, tc.with, name)
	}
}

// TestValidateNetworking_Encapsulation refuses a binding that does not forward the packets of the Shoot's pods.
func TestValidateNetworking_Encapsulation(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		binding, network, config string
		refused                  bool
	}{
		"Calico":       {binding: api.BindingPasst, network: "calico", refused: true},
		"IP-in-IP":     {binding: api.BindingPasst, network: "calico", config: `{"ipv4": {"pool": "ipip"}, "overlay": {"enabled": true}}`, refused: true},
		"VXLAN":        {binding: api.BindingPasst, network: "calico", config: `{"vxlan": {"enabled": true}}`},
		"VXLAN pool":   {binding: api.BindingPasst, network: "calico", config: `{"ipv4": {"pool": "vxlan"}}`},
		"backend":      {binding: api.BindingPasst, network: "calico", config: `{"backend": "vxlan"}`},
		"no overlay":   {binding: api.BindingPasst, network: "calico", config: `{"overlay": {"enabled": false}}`},
		"never":        {binding: api.BindingPasst, network: "calico", config: `{"ipv4": {"mode": "Never"}}`},
		"Cilium":       {binding: api.BindingPasst, network: "cilium"},
		"bridge":       {binding: api.BindingBridge, network: "calico"},
		"no interface": {network: "calico"},
	} {
		networking := &gardencorev1beta1.Networking{Type: ptr.To(tc.network), Nodes: ptr.To("10.244.0.0/16")}
		if tc.config != "" {
			networking.ProviderConfig = &runtime.RawExtension{Raw: []byte(tc.config)}
		}

		var pod *api.PodNetwork
		if tc.binding != "" {
			pod = &api.PodNetwork{Binding: tc.binding}
		}

		errs := validation.ValidateNetworking(networking, &api.InfrastructureConfig{}, pod)
		require.Equal(t, tc.refused, len(errs) == 1 && errs[0].Field == "spec.provider.infrastructureConfig.networks.pod.binding", "%s: %v", name, errs)
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

	path := field.NewPath("tenantNetworks")
	cni := api.TenantNetwork{Name: "c", Config: `{"type": "bridge"}`}
	networks := []api.TenantNetwork{cni, ovn("10.1.0.0/16")}
	none := []api.TenantNetworkType{}

	require.Empty(t, validation.ValidateTenantNetworks(networks, nil, nil, path))
	require.Len(t, validation.ValidateTenantNetworks(networks, nil, none, path), 2)
	require.Empty(t, validation.ValidateTenantNetworks(networks, networks, none, path), "existing networks can stay")
	require.Empty(t, validation.ValidateTenantNetworks([]api.TenantNetwork{{Name: "a"}}, nil, none, path), "a network without a type has another error")

	changed := api.TenantNetwork{Name: "c", Config: `{"type": "macvlan"}`}
	require.Len(t, validation.ValidateTenantNetworks([]api.TenantNetwork{changed}, networks, none, path), 1, "the content must not change")

	errs := validation.ValidateTenantNetworks(networks, nil, []api.TenantNetworkType{api.TenantNetworkOVN, api.TenantNetworkKubeOVN}, path)
	require.Len(t, errs, 1)
	require.Equal(t, "tenantNetworks[0]", errs[0].Field)
	require.ErrorContains(t, errs[0], "does not allow tenant networks with config; use ovn or kubeOVN, or ask the operator to add it to providerConfig.tenantNetworks")

	require.Len(t, validation.ValidateTenantNetworkTypes([]api.TenantNetworkType{"config", "vlan"}, path), 1)
}

// TestValidateTenantNetworks_SharedPlugins refuses CNI plugins that join a network by its name: that of another shoot can be
// guessed.
func TestValidateTenantNetworks_SharedPlugins(t *testing.T) {
	t.Parallel()

	path := field.NewPath("tenantNetworks")

	for _, config := range []string{
		`{"type": "ovn-k8s-cni-overlay", "name": "shoot-machines_shoot--bank--prod-storage"}`,
		`{"Type": "kube-ovn"}`,
		`{"plugins": [{"type": "tuning"}, {"type": "kube-ovn"}]}`,
		`{"type": "macvlan", "ipam": {"type": "kube-ovn", "provider": "a.b"}}`,
		`{"type": "multus", "delegates": [{"type": "ovn-k8s-cni-overlay"}]}`,
		`{"type": "\u006bube-ovn"}`,
	} {
		network := []api.TenantNetwork{{Name: "c", Config: config}}
		errs := validation.ValidateTenantNetworks(network, nil, nil, path)
		require.Len(t, errs, 1, config)
		require.ErrorContains(t, errs[0], "can name the networks of other shoots; use ovn or kubeOVN instead of config")
		require.Empty(t, validation.ValidateTenantNetworks(network, network, nil, path), "it exists")

		before := []api.TenantNetwork{{Name: "c", Config: `{"type": "kube-ovn", "provider": "own"}`}}
		require.Len(t, validation.ValidateTenantNetworks(network, before, nil, path), 1, "another one of them")
	}

	require.Empty(t, validation.ValidateTenantNetworks([]api.TenantNetwork{{Name: "c", Config: `{"type": "bridge", "name": "kube-ovn"}`}}, nil, nil, path))
}
