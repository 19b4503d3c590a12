// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// RootVolume is the disk that the machine boots from: the machine's own CDI DataVolume, or a
// container disk.
type RootVolume struct {
	DataVolume `json:",inline"`

	// ContainerDisk is a disk image in a container registry. It needs no storage and boots in
	// seconds. The guest's writes are lost when it stops, so the machine is not restarted, but
	// replaced.
	ContainerDisk *kubevirtv1.ContainerDiskSource `json:"containerDisk,omitempty"`
}

// DataVolume is a CDI DataVolume, created and deleted with the machine: a source (or sourceRef),
// and storage (or pvc).
type DataVolume struct {
	cdiv1beta1.DataVolumeSpec `json:",inline"`

	// Annotations are the annotations of the DataVolume, for CDI.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AdditionalVolume is an additional disk: the machine's own DataVolume, or an existing object of
// the provider cluster.
type AdditionalVolume struct {
	// Name is the name of the volume and its disk, a DNS label of at most 57 characters.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// DataVolume is a CDI DataVolume, created and deleted with the machine. Either dataVolume or
	// volumeSource is required.
	DataVolume *DataVolume `json:"dataVolume,omitempty"`
	// VolumeSource is an existing object in the namespace of the machine. Either dataVolume or
	// volumeSource is required.
	VolumeSource *VolumeSource `json:"volumeSource,omitempty"`
}

// VolumeSource is one object of the provider cluster, in the namespace of the machine. Exactly one
// is required.
type VolumeSource struct {
	// PersistentVolumeClaim is a claim that all machines of the class share.
	PersistentVolumeClaim *kubevirtv1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// ConfigMap appears as a disk with one file per key.
	ConfigMap *kubevirtv1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// Secret appears as a disk with one file per key.
	Secret *kubevirtv1.SecretVolumeSource `json:"secret,omitempty"`
}

// GoldenImage configures the image from which imported root volumes are cloned. Each distinct image
// is imported once.
type GoldenImage struct {
	// Size is the size of the image, at most the root volume's. Default: the root volume's. Worker
	// pools with the same size of the image share it, even if the sizes of their root volumes
	// differ.
	Size *resource.Quantity `json:"size,omitempty"`
}
