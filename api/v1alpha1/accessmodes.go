// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// EffectiveModes returns the modes that CDI derives from the requested ones: it uses the first
// matching set of the profile (pkg/controller/datavolume/pvc-utils.go).
func EffectiveModes(requested *cdiv1beta1.StorageSpec, profile *cdiv1beta1.StorageProfile) ([]corev1.PersistentVolumeAccessMode, *corev1.PersistentVolumeMode) {
	given := requested.AccessModes
	volumeMode := requested.VolumeMode

	for _, set := range profile.Status.ClaimPropertySets {
		if volumeMode != nil && ptr.Deref(set.VolumeMode, corev1.PersistentVolumeFilesystem) != *volumeMode {
			continue
		}

		if len(given) == 0 {
			return set.AccessModes, set.VolumeMode
		}

		if slices.ContainsFunc(set.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return slices.Contains(given, m) }) {
			return given, set.VolumeMode
		}
	}

	return given, volumeMode
}
