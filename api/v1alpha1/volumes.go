// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"iter"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DataVolumes returns the DataVolumes of the root volume and of the additional volumes, with their paths below that of
// the spec. The root volume has none, but an empty one, if it is a container disk.
func (s *ProviderSpec) DataVolumes(path *field.Path) iter.Seq2[*field.Path, *DataVolume] {
	return func(yield func(*field.Path, *DataVolume) bool) {
		if !yield(path.Child("rootVolume"), &s.RootVolume.DataVolume) {
			return
		}

		for i := range s.AdditionalVolumes {
			volume := s.AdditionalVolumes[i].DataVolume
			if volume != nil && !yield(path.Child("additionalVolumes").Index(i).Child("dataVolume"), volume) {
				return
			}
		}
	}
}
