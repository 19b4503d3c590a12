// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

const bridge = `{"cniVersion":"0.4.0","name":"a","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.100.0.1/16"}},{"type":"firewall"}]}`

func TestValidateInfrastructureConfig(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		config api.InfrastructureConfig
		want   []string
	}{
		"Empty": {},
		"Valid": {config: networks(api.TenantNetwork{Name: "a", Config: bridge, Default: true}, api.TenantNetwork{Name: "b", Config: `{"type":"bridge"}`, Attachment: stable()})},
		"Name": {
			config: networks(api.TenantNetwork{Config: bridge}, api.TenantNetwork{Name: "A_b", Config: bridge}),
			want:   []string{"config.networks.tenantNetworks[0].name", "config.networks.tenantNetworks[1].name"},
		},
		"Duplicate": {config: networks(api.TenantNetwork{Name: "a", Config: bridge}, api.TenantNetwork{Name: "a", Config: bridge}), want: []string{"config.networks.tenantNetworks[1].name"}},
		"CNI": {
			config: networks(api.TenantNetwork{Name: "a", Config: "type: bridge"}, api.TenantNetwork{Name: "b", Config: "{}"}),
			want:   []string{"config.networks.tenantNetworks[0].config", "config.networks.tenantNetworks[1].config"},
		},
		"Defaults": {
			config: networks(api.TenantNetwork{Name: "a", Config: bridge, Default: true}, api.TenantNetwork{Name: "b", Config: bridge, Default: true}),
			want:   []string{"config.networks.tenantNetworks[1].default"},
		},
		"MAC": {
			config: networks(api.TenantNetwork{Name: "a", Config: bridge, Default: true, Attachment: stable()}, api.TenantNetwork{Name: "b", Config: bridge, Attachment: api.Attachment{MAC: "Random"}}),
			want:   []string{"config.networks.tenantNetworks[0].mac", "config.networks.tenantNetworks[1].mac"},
		},
		"Shared": {
			config: api.InfrastructureConfig{Networks: api.NetworksConfig{SharedNetworks: []api.SharedNetwork{{Name: "a"}, {Name: "a"}, {Name: "b", Namespace: "B"}}}},
			want:   []string{"config.networks.sharedNetworks[1]", "config.networks.sharedNetworks[2].namespace"},
		},
		"CIDR": {config: api.InfrastructureConfig{Isolation: &api.IsolationConfig{AllowedCIDRs: []string{"10.0.0.0/8", "10"}}}, want: []string{"config.isolation.allowedCIDRs[1]"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, err := range validation.ValidateInfrastructureConfig(&tc.config, field.NewPath("config")) {
				got = append(got, err.Field)
			}

			require.Equal(t, tc.want, got)
		})
	}
}

func networks(tenant ...api.TenantNetwork) api.InfrastructureConfig {
	return api.InfrastructureConfig{Networks: api.NetworksConfig{TenantNetworks: tenant}}
}

func stable() api.Attachment { return api.Attachment{MAC: providerspec.MACStable} }

func TestDefaultSubnets(t *testing.T) {
	t.Parallel()

	for config, want := range map[string][]string{
		bridge: {"10.100.0.0/16"},
		`{"type":"bridge","ipam":{"type":"whereabouts","range":"10.123.124.0/24"}}`:                                       {"10.123.124.0/24"},
		`{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16"}],[{"subnet":"fd00:1::/64"}]]}}`: {"10.1.0.0/16", "fd00:1::/64"},
		`{"type":"bridge","ipam":{"type":"dhcp"}}`:                                                                        nil,
		`not JSON`: nil,
	} {
		require.Equal(t, want, validation.DefaultSubnets(&api.InfrastructureConfig{Networks: api.NetworksConfig{
			TenantNetworks: []api.TenantNetwork{{Name: "other", Config: `{"ipam":{"subnet":"10.9.0.0/16"}}`}, {Name: "default", Config: config, Default: true}},
		}}), config)
	}
}
