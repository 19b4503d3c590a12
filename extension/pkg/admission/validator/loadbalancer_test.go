// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// profileAllowing returns the example CloudProfile with annotations of load balancers, in JSON.
func profileAllowing(t *testing.T, annotations string) *gardencorev1beta1.CloudProfile {
	t.Helper()

	profile := exampleProfile(t)
	profile.Spec.ProviderConfig = edited(t, profile.Spec.ProviderConfig, `"machineImages":`, `"loadBalancer":{"allowedAnnotations":`+annotations+`},"machineImages":`)

	return profile
}

// TestValidateControlPlaneConfig_Annotations accepts annotations that the CloudProfile allows. A Shoot that has others can
// still be changed.
func TestValidateControlPlaneConfig_Annotations(t *testing.T) {
	t.Parallel()

	shoot := func() *gardencorev1beta1.Shoot {
		s := exampleShoot(t)
		s.Spec.Provider.ControlPlaneConfig = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":"ControlPlaneConfig","loadBalancer":{"allowedAnnotations":["metallb.io/address-pool"]}}`)}

		return s
	}

	v := &shootValidator{garden: gardenWith(t, profileAllowing(t, `["metallb.io/*"]`))}
	require.NoError(t, v.Validate(t.Context(), shoot(), nil))

	for _, allowed := range []string{`[]`, `["metallb.io/other"]`} {
		v := &shootValidator{garden: gardenWith(t, profileAllowing(t, allowed))}
		require.ErrorContains(t, v.Validate(t.Context(), shoot(), nil), "spec.provider.controlPlaneConfig.loadBalancer.allowedAnnotations[0]: Forbidden: the CloudProfile does not allow")

		changed := shoot()
		changed.Spec.Provider.Workers[0].Maximum++
		require.NoError(t, v.Validate(t.Context(), changed, shoot()))
	}
}

// TestValidateCloudProfile_Annotations validates the list. A project cannot allow annotations.
func TestValidateCloudProfile_Annotations(t *testing.T) {
	t.Parallel()

	v := &cloudProfileValidator{}
	require.NoError(t, v.Validate(t.Context(), profileAllowing(t, `["metallb.io/*"]`), nil))
	require.ErrorContains(t, v.Validate(t.Context(), profileAllowing(t, `["*"]`), nil), "spec.providerConfig.loadBalancer.allowedAnnotations[0]: ")

	own := &gardencorev1beta1.NamespacedCloudProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "own"},
		Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
			Parent: gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "kubevirt"}, ProviderConfig: profileAllowing(t, `[]`).Spec.ProviderConfig,
		},
	}
	require.ErrorContains(t, (&namespacedCloudProfileValidator{garden: gardenWith(t, exampleProfile(t))}).Validate(t.Context(), own, nil),
		"spec.providerConfig.loadBalancer: Forbidden: only a CloudProfile can have it")
}
