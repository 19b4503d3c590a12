// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestEffectiveModes(t *testing.T) {
	t.Parallel()

	type modes = []corev1.PersistentVolumeAccessMode

	block := corev1.PersistentVolumeBlock
	files := corev1.PersistentVolumeFilesystem
	sets := []cdiv1beta1.ClaimPropertySet{
		{AccessModes: modes{corev1.ReadWriteMany}, VolumeMode: &block}, {AccessModes: modes{corev1.ReadWriteOnce}, VolumeMode: &files},
	}

	tests := map[string]struct {
		reason string
		given  modes
		mode   *corev1.PersistentVolumeMode
		sets   []cdiv1beta1.ClaimPropertySet
		want   modes
		volume *corev1.PersistentVolumeMode
	}{
		"First":     {reason: "the best comes first", sets: sets, want: modes{corev1.ReadWriteMany}, volume: &block},
		"OfMode":    {reason: "the volume mode is given", mode: &files, sets: sets, want: modes{corev1.ReadWriteOnce}, volume: &files},
		"OfAccess":  {reason: "the access modes are given", given: modes{corev1.ReadWriteOnce}, sets: sets, want: modes{corev1.ReadWriteOnce}, volume: &files},
		"Own":       {reason: "the class knows better", given: modes{corev1.ReadWriteOnce}, want: modes{corev1.ReadWriteOnce}},
		"None":      {reason: "nobody knows"},
		"NotOfMode": {reason: "nobody knows for devices", mode: &block, sets: sets[1:], volume: &block},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			requested := &cdiv1beta1.StorageSpec{AccessModes: tc.given, VolumeMode: tc.mode}
			got, volume := v1alpha1.EffectiveModes(requested, &cdiv1beta1.StorageProfile{Status: cdiv1beta1.StorageProfileStatus{ClaimPropertySets: tc.sets}})
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.volume, volume, tc.reason)
		})
	}
}
