// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// CloudProfileConfig is spec.providerConfig of a CloudProfile: the images and machine types of the
// provider cluster. A NamespacedCloudProfile can have one with machineImages and machineTypes only, which
// are added to those of its CloudProfile.
//
// +kubebuilder:object:root=true
type CloudProfileConfig struct {
	metav1.TypeMeta `json:",inline"`

	// MachineImages map each image and version of spec.machineImages to the source of its disk.
	// +optional
	MachineImages []MachineImages `json:"machineImages"`
	// MachineTypes extend machine types of spec.machineTypes.
	MachineTypes []MachineType `json:"machineTypes,omitempty"`
	// VolumeClasses extend storage classes of the provider cluster, and offer them to pods of the
	// shoots.
	VolumeClasses []VolumeClass `json:"volumeClasses,omitempty"`
	// SharedNetworks are the networks that Shoots can use as networks.sharedNetworks of their
	// InfrastructureConfig; with an empty list ([]), they can use none. Machines that already use a network
	// keep it. Default: Shoots can use each network that their account may read. A network of another
	// shoot can never be used.
	// +optional
	SharedNetworks []OfferedNetwork `json:"sharedNetworks,omitzero"`
	// LoadBalancer describes the load balancers of the provider cluster.
	LoadBalancer *OfferedLoadBalancer `json:"loadBalancer,omitempty"`
	// TenantNetworks are the types of networks.tenantNetworks that Shoots can have: config (any CNI
	// configuration), kubeOVN and ovn; with an empty list ([]), they can have none. Existing networks can stay.
	// Default: all types.
	// +optional
	TenantNetworks []TenantNetworkType `json:"tenantNetworks,omitzero"`
	// PodNetwork is the default of networks.pod of InfrastructureConfigs. A change applies to new Shoots.
	// Default: a bridge.
	PodNetwork *PodNetwork `json:"podNetwork,omitempty"`
	// Bastion describes the virtual machines of Bastions. Default: Debian.
	Bastion *OfferedBastion `json:"bastion,omitempty"`
}

// OfferedBastion describes the virtual machines of Bastions, through which users of shoots reach Nodes by SSH.
type OfferedBastion struct {
	// ContainerDisk is a disk image in a container registry, with bash, cloud-init, OpenSSH and sudo. A change
	// applies to new Bastions. Without a digest, the default of imagePullPolicy is Always. Default: the image bastion of the image
	// vector, quay.io/containerdisks/debian:13.
	// +kubebuilder:validation:Required
	ContainerDisk kubevirtv1.ContainerDiskSource `json:"containerDisk"`
}

// OfferedLoadBalancer describes the load balancers of the provider cluster.
type OfferedLoadBalancer struct {
	// AllowedAnnotations are the annotations that Services of shoots may pass on to their load balancers: keys,
	// such as metallb.io/address-pool, or a prefix with "/*". With an annotation, a user of a shoot configures
	// the implementation of load balancers in the provider cluster. Default: none.
	AllowedAnnotations []string `json:"allowedAnnotations,omitempty"`
	// Class is spec.loadBalancerClass of new load balancers. Default: the default implementation of the
	// provider cluster.
	Class string `json:"class,omitempty"`
}

// OfferedNetwork is a NetworkAttachmentDefinition of the provider cluster, or all those of a namespace.
type OfferedNetwork struct {
	// Namespace is the namespace of the network. Default: the namespace of the shoot's machines.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the network. Default: all networks of the namespace.
	Name string `json:"name,omitempty"`
}

// MachineImages are the versions of one image.
type MachineImages struct {
	// Name is the name of the image in spec.machineImages.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Versions are the versions of the image.
	// +kubebuilder:validation:Required
	Versions []MachineImageVersion `json:"versions"`
}

// MachineImageVersion is one version of an image. It has either a source of its own, or, in a
// CloudProfile with spec.machineCapabilities, capabilityFlavors.
type MachineImageVersion struct {
	// Version is the version in spec.machineImages.
	// +kubebuilder:validation:Required
	Version string `json:"version"`

	ImageSource `json:",inline"`

	// Architecture is the CPU architecture of the image. Default: amd64.
	Architecture *string `json:"architecture,omitempty"`
	// CapabilityFlavors are the disks of the version for machine types with different capabilities.
	CapabilityFlavors []MachineImageFlavor `json:"capabilityFlavors,omitempty"`
}

// MachineImageFlavor is the disk of an image version for machine types with certain capabilities.
type MachineImageFlavor struct {
	ImageSource `json:",inline"`

	// Capabilities are the values of spec.machineCapabilities that the disk supports. Default: all
	// values.
	Capabilities gardencorev1beta1.Capabilities `json:"capabilities,omitempty"`
}

// GetCapabilities returns the capabilities of the flavor.
func (f *MachineImageFlavor) GetCapabilities() gardencorev1beta1.Capabilities { return f.Capabilities }

// ImageSource is the source of an image's disk. Exactly one of sourceURL, source, sourceRef and
// containerDisk is required.
type ImageSource struct {
	// SourceURL is the HTTP or HTTPS address of a disk image in a format that CDI can read, such as
	// qcow2. It is the short form of source.http.url.
	SourceURL string `json:"sourceURL,omitempty"`
	// Source is a source of a CDI DataVolume: http, with an optional checksum, registry, s3, gcs,
	// imageio, vddk, pvc or snapshot.
	Source *cdiv1beta1.DataVolumeSource `json:"source,omitempty"`
	// SourceRef is a DataSource of the provider cluster.
	SourceRef *cdiv1beta1.DataVolumeSourceRef `json:"sourceRef,omitempty"`
	// ContainerDisk is a disk image in a container registry. The machine needs no storage for its
	// root volume, and is replaced when it stops.
	ContainerDisk *kubevirtv1.ContainerDiskSource `json:"containerDisk,omitempty"`

	// CloudInit configures how the image receives the user data. Default: as NoCloud. Images with
	// Ignition need ConfigDrive.
	CloudInit *providerspec.CloudInit `json:"cloudInit,omitempty"`
	// Size is the size of the golden image, so that pools with root volumes of different sizes share
	// one image. It is ignored if it is not smaller than the root volume. Default: the size of the
	// worker pool's root volume; pools with different sizes then import the image separately.
	Size *resource.Quantity `json:"size,omitempty"`
}

// MachineType extends a machine type of the CloudProfile.
type MachineType struct {
	// Name is the name of the machine type in spec.machineTypes.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Limits are the resource limits of the virtual machine's pod. Default: none. The requests are
	// the CPU and memory of the machine type.
	Limits *ResourcesLimits `json:"limits,omitempty"`
	// Instancetype refers to a KubeVirt instance type in the provider cluster, which defines CPU,
	// memory, GPUs and host devices instead of this machine type. The CPU and memory in
	// spec.machineTypes must equal those of the instance type, since cluster-autoscaler uses them.
	Instancetype *kubevirtv1.InstancetypeMatcher `json:"instancetype,omitempty"`
	// Preference refers to a KubeVirt preference in the provider cluster.
	Preference *kubevirtv1.PreferenceMatcher `json:"preference,omitempty"`
	// GPUs are GPUs of the provider nodes that the machine receives: each has either the deviceName of a
	// device plugin, or the claimName and the requestName of one of the resourceClaims. The gpu field of
	// the machine type in spec.machineTypes must be their number, which cluster-autoscaler expects of new
	// nodes.
	GPUs []kubevirtv1.GPU `json:"gpus,omitempty"`
	// HostDevices are other devices of the provider nodes that the machine receives, likewise.
	HostDevices []kubevirtv1.HostDevice `json:"hostDevices,omitempty"`
	// ResourceClaims are claims of dynamic resource allocation (DRA) for the devices. Each machine gets
	// claims of its own, from ResourceClaimTemplates in the namespace of the machines. KubeVirt before 1.9
	// needs the feature gates GPUsWithDRA and HostDevicesWithDRA.
	ResourceClaims []ResourceClaim `json:"resourceClaims,omitempty"`
}

// ResourceClaim is a claim of dynamic resource allocation.
type ResourceClaim struct {
	// Name is the name by which gpus and hostDevices refer to the claim.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// ResourceClaimTemplateName is the name of a ResourceClaimTemplate in the namespace of the machines.
	// +kubebuilder:validation:Required
	ResourceClaimTemplateName string `json:"resourceClaimTemplateName"`
}

// ResourcesLimits are the resource limits of a virtual machine's pod.
type ResourcesLimits struct {
	// CPU is the limit of CPU. Default: none.
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is the limit of memory. Default: none.
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// VolumeClass extends a storage class of the provider cluster. Volumes of machines use a class that
// spec.volumeTypes[].class names; volumes of pods use a class with exposeAs.
type VolumeClass struct {
	// Name is the name of the storage class in the provider cluster.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Encrypted is set if the storage encrypts the volumes of the class. Volumes of worker pools
	// with encrypted: true need such a class.
	Encrypted bool `json:"encrypted,omitempty"`
	// ExposeAs is the name of a StorageClass in the shoots, whose PersistentVolumes are volumes of
	// this class that are hot-plugged into the machines. Default: pods of the shoots cannot use this
	// class.
	ExposeAs string `json:"exposeAs,omitempty"`
	// Default makes the StorageClass the default of the shoots. At most one class can be the default.
	Default bool `json:"default,omitempty"`
	// ReclaimPolicy is the reclaim policy of the StorageClass. Default: Delete.
	// +kubebuilder:validation:Enum=Delete;Retain
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// VolumeBindingMode is the binding mode of the StorageClass. Default: WaitForFirstConsumer.
	// +kubebuilder:validation:Enum=Immediate;WaitForFirstConsumer
	VolumeBindingMode storagev1.VolumeBindingMode `json:"volumeBindingMode,omitempty"`
	// Zones are the zones whose machines can attach volumes of this class. Pods are scheduled to one
	// of these zones when their volume is created, and stay in them: the PersistentVolume has a node
	// affinity. Default: all zones.
	Zones []string `json:"zones,omitempty"`
	// SnapshotClass is the VolumeSnapshotClass of the provider cluster for volumes of this class. The
	// shoots have a VolumeSnapshotClass with the name in exposeAs. Default: none; volumes of this class
	// cannot be snapshotted, unless another entry with the same name has a class.
	SnapshotClass string `json:"snapshotClass,omitempty"`
}
