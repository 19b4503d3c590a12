// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestProviderSpec_DataVolumes(t *testing.T) {
	t.Parallel()

	spec := &v1alpha1.ProviderSpec{AdditionalVolumes: []v1alpha1.AdditionalVolume{{}, {DataVolume: &v1alpha1.DataVolume{}}}}

	var paths []string
	for path := range spec.DataVolumes(field.NewPath("spec")) {
		paths = append(paths, path.String())
	}

	require.Equal(t, []string{"spec.rootVolume", "spec.additionalVolumes[1].dataVolume"}, paths)

	for path, volume := range spec.DataVolumes(field.NewPath("spec")) {
		require.Equal(t, "spec.rootVolume", path.String())
		require.Same(t, &spec.RootVolume.DataVolume, volume)

		break
	}
}
