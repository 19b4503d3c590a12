// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// TestAdapt changes the guide's Shoot as the command does that the demonstration shows.
func TestAdapt(t *testing.T) {
	t.Parallel()

	manifest, err := os.ReadFile("../../example/90-shoot.yaml")
	require.NoError(t, err)

	shown, err := exec.CommandContext(t.Context(), "sed", script, "../../example/90-shoot.yaml").Output()
	require.NoError(t, err)
	require.Equal(t, string(shown), string(adapt(manifest)))

	shoot := &gardencorev1beta1.Shoot{}
	require.NoError(t, yaml.UnmarshalStrict(adapt(manifest), shoot))
	require.Equal(t, "10.244.0.0/16", *shoot.Spec.Networking.Nodes)
	require.EqualValues(t, 2, shoot.Spec.Provider.Workers[0].Minimum)

	config := &api.InfrastructureConfig{}
	require.Empty(t, api.Decode(shoot.Spec.Provider.InfrastructureConfig, nil, config))
	require.True(t, validation.UsesPodNetwork(&config.Networks))
	require.Len(t, config.Networks.TenantNetworks, 1)
}

func TestBindingFor(t *testing.T) {
	t.Parallel()

	for version, binding := range map[string]string{
		"1.8.2":  api.BindingMasquerade,
		"1.9.0":  api.BindingPasst,
		"1.10.0": api.BindingPasst,
	} {
		require.Equal(t, binding, bindingFor(version), version)
	}
}
