// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// LabelGoldenImage is the name of a golden image, on its DataVolume, and on each VirtualMachine
	// and root DataVolume that is cloned from it.
	LabelGoldenImage = "kubevirt.machine.gardener.cloud/golden-image"
	// AnnotationGoldenImageKey is the content of which the name of a golden image is a hash. Only
	// golden images have it.
	AnnotationGoldenImageKey = "kubevirt.machine.gardener.cloud/golden-image-key"
	// LabelManagedBy is the recommended Kubernetes label for the tool that manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the driver's value of LabelManagedBy.
	ManagedBy = "machine-controller-manager-provider-kubevirt"
)

// UsesGoldenImage reports whether the machines' root volumes are cloned from an image that is
// imported once. That is the default if their source is outside the provider cluster.
func (s *ProviderSpec) UsesGoldenImage() bool {
	return !s.DisablePreAllocatedDataVolumes && s.RootVolume.ContainerDisk == nil && s.RootVolume.imports()
}

func (v *DataVolume) imports() bool {
	s := v.Source

	return s != nil && (s.HTTP != nil || s.Registry != nil || s.S3 != nil || s.GCS != nil || s.Imageio != nil || s.VDDK != nil)
}

// Size returns the requested size. It is nil if the volume takes the size of its source.
func (v *DataVolume) Size() *resource.Quantity {
	var requests corev1.ResourceList

	switch {
	case v.Storage != nil:
		requests = v.Storage.Resources.Requests
	case v.PVC != nil:
		requests = v.PVC.Resources.Requests
	}

	if size, given := requests[corev1.ResourceStorage]; given {
		return &size
	}

	return nil
}
