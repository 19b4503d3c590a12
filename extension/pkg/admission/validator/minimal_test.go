// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"testing"

	"github.com/gardener/gardener/pkg/api/core/validation"
	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/apiserver/features"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
)

// TestValidate_MinimalExamples validates the manifests that new users see first, with
// gardener-apiserver's validation and the admission. The image's URL must not refer to a daily build: new content at the
// same URL would not replace machines.
func TestValidate_MinimalExamples(t *testing.T) {
	t.Parallel()

	profile := &gardencorev1beta1.CloudProfile{}
	shoot := &gardencorev1beta1.Shoot{}
	example(t, "30-cloudprofile-minimal.yaml", profile)
	example(t, "90-shoot-minimal.yaml", shoot)
	require.NotContains(t, string(profile.Spec.ProviderConfig.Raw), "/current/")

	require.NoError(t, (&cloudProfileValidator{}).Validate(t.Context(), profile, nil))
	require.NoError(t, (&shootValidator{garden: gardenWith(t, profile)}).Validate(t.Context(), shoot, nil))

	kubernetes.GardenScheme.Default(profile)
	kubernetes.GardenScheme.Default(shoot)

	features.RegisterFeatureGates()

	shoot.Spec.CloudProfile.Kind = "CloudProfile" // gardener-apiserver sets it.

	internalProfile := &core.CloudProfile{}
	internalShoot := &core.Shoot{}
	require.NoError(t, kubernetes.GardenScheme.Convert(profile, internalProfile, nil))
	require.NoError(t, kubernetes.GardenScheme.Convert(shoot, internalShoot, nil))
	require.Empty(t, validation.ValidateCloudProfile(internalProfile))
	require.Empty(t, validation.ValidateShoot(internalShoot))
}
