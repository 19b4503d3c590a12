// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

func TestValidatePodNetwork(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		networks api.NetworksConfig
		field    string
	}{
		"none":              {},
		"passt":             {networks: api.NetworksConfig{Pod: &api.PodNetwork{Binding: api.BindingPasst}}},
		"migrating bridge":  {networks: api.NetworksConfig{Pod: &api.PodNetwork{Binding: api.BindingBridge, AllowBridgeLiveMigration: true}}},
		"migrating default": {networks: api.NetworksConfig{Pod: &api.PodNetwork{AllowBridgeLiveMigration: true}}},
		"name":              {networks: api.NetworksConfig{Pod: &api.PodNetwork{Binding: "L2 bridge"}}, field: "networks.pod.binding"},
		"another migration": {
			networks: api.NetworksConfig{Pod: &api.PodNetwork{Binding: api.BindingPasst, AllowBridgeLiveMigration: true}}, field: "networks.pod.allowBridgeLiveMigration",
		},
		"default network": {
			networks: api.NetworksConfig{Pod: &api.PodNetwork{}, TenantNetworks: []api.TenantNetwork{{Name: "a", Config: `{"type": "bridge"}`, Default: true}}},
			field:    "networks.pod",
		},
	} {
		errs := validation.ValidateInfrastructureConfig(&api.InfrastructureConfig{Networks: tc.networks}, field.NewPath(""))
		if tc.field == "" {
			require.Empty(t, errs, name)

			continue
		}

		require.Len(t, errs, 1, name)
		require.Contains(t, errs[0].Field, tc.field, name)
	}
}

func TestPodNetworkOf(t *testing.T) {
	t.Parallel()

	passt := &api.PodNetwork{Binding: api.BindingPasst}

	require.Nil(t, validation.PodNetworkOf(&api.NetworksConfig{}, nil))
	require.Equal(t, passt, validation.PodNetworkOf(&api.NetworksConfig{}, passt))
	require.Nil(t, validation.PodNetworkOf(&api.NetworksConfig{Pod: &api.PodNetwork{Binding: api.BindingBridge}}, passt), "a bridge is the default of the ProviderSpec")
	require.Nil(t, validation.PodNetworkOf(&api.NetworksConfig{TenantNetworks: []api.TenantNetwork{{Default: true}}}, passt))
}
