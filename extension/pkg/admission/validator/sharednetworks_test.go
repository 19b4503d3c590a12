// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// profileOffering returns the example CloudProfile with a list of shared networks, in JSON.
func profileOffering(t *testing.T, networks string) *gardencorev1beta1.CloudProfile {
	t.Helper()

	profile := exampleProfile(t)
	profile.Spec.ProviderConfig = edited(t, profile.Spec.ProviderConfig, `"machineImages":`, `"sharedNetworks":`+networks+`,"machineImages":`)

	return profile
}

// TestValidateSharedNetworks_Offered accepts the shared network of the example Shoot only if the CloudProfile offers it. A Shoot
// that has the network can still be changed.
func TestValidateSharedNetworks_Offered(t *testing.T) {
	t.Parallel()

	const path = "spec.provider.infrastructureConfig.networks.sharedNetworks[0]: "

	for networks, refused := range map[string]bool{
		`[]`: true, `[{"namespace":"default"}]`: false, `[{"name":"net-conf"}]`: false, `[{"namespace":"default","name":"other"}]`: true,
	} {
		v := &shootValidator{garden: gardenWith(t, profileOffering(t, networks))}
		err := v.Validate(t.Context(), exampleShoot(t), nil)

		if !refused {
			require.NoError(t, err, networks)

			continue
		}

		require.ErrorContains(t, err, path, networks)
		require.ErrorContains(t, err, "the CloudProfile does not offer the network default/net-conf", networks)

		changed := exampleShoot(t)
		changed.Spec.Provider.Workers[0].Maximum++
		require.NoError(t, v.Validate(t.Context(), changed, exampleShoot(t)), networks)
	}
}

// TestValidateCloudProfile_SharedNetworks validates the list. A project cannot offer networks.
func TestValidateCloudProfile_SharedNetworks(t *testing.T) {
	t.Parallel()

	v := &cloudProfileValidator{}
	require.NoError(t, v.Validate(t.Context(), profileOffering(t, `[{"namespace":"storage"}]`), nil))
	require.ErrorContains(t, v.Validate(t.Context(), profileOffering(t, `[{}]`), nil), "spec.providerConfig.sharedNetworks[0]: ")

	own := &gardencorev1beta1.NamespacedCloudProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "own"},
		Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
			Parent:         gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "kubevirt"},
			ProviderConfig: profileOffering(t, `[]`).Spec.ProviderConfig,
		},
	}
	require.ErrorContains(t, (&namespacedCloudProfileValidator{garden: gardenWith(t, exampleProfile(t))}).Validate(t.Context(), own, nil),
		"spec.providerConfig.sharedNetworks: Forbidden: only a CloudProfile can have it")
}
