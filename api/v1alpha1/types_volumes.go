package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// RootVolume is what the machine boots from: a CDI DataVolume of the machine's own, or a container disk.
type RootVolume struct {
	DataVolume `json:",inline"`

	// ContainerDisk is a disk image in a container registry. It needs no storage and boots in seconds; what the guest writes
	// to it is lost when it stops, so the machine is not restarted but replaced.
	ContainerDisk *kubevirtv1.ContainerDiskSource `json:"containerDisk,omitempty"`
}

// DataVolume is a CDI DataVolume, created and deleted with the machine: a source (or sourceRef), and storage (or pvc).
type DataVolume struct {
	cdiv1beta1.DataVolumeSpec `json:",inline"`

	// Annotations are those of the DataVolume, for CDI.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// AdditionalVolume is a further disk: a DataVolume of the machine's own, or something that exists on the provider cluster.
type AdditionalVolume struct {
	// Name is the name of the volume and its disk, a DNS label of at most 57 characters.
	Name string `json:"name"`
	// DataVolume is a CDI DataVolume, created and deleted with the machine. Either it or volumeSource is required.
	DataVolume *DataVolume `json:"dataVolume,omitempty"`
	// VolumeSource is something that exists in the namespace of the machine. Either it or dataVolume is required.
	VolumeSource *VolumeSource `json:"volumeSource,omitempty"`
}

// VolumeSource is one object of the provider cluster, in the namespace of the machine. Exactly one is required.
type VolumeSource struct {
	// PersistentVolumeClaim is a claim; all machines of the class share it.
	PersistentVolumeClaim *kubevirtv1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// ConfigMap appears as a disk with one file per key.
	ConfigMap *kubevirtv1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// Secret appears as a disk with one file per key.
	Secret *kubevirtv1.SecretVolumeSource `json:"secret,omitempty"`
}

// GoldenImage configures the image that an importing root volume is cloned from. It is imported once per distinct image.
type GoldenImage struct {
	// Size is the image's size, at most the root volume's. Default: the root volume's. Worker pools that give it share one
	// image also when their root volumes differ in size.
	Size *resource.Quantity `json:"size,omitempty"`
}
