// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// WorkerConfig is spec.provider.workers[].providerConfig of a Shoot: KubeVirt's settings for the
// machines of a worker pool. Except for nodeTemplate, each field has the same meaning as the field
// of that name in the ProviderSpec. Changes replace the machines, unless the field says otherwise;
// in pools with in-place updates, they are refused.
//
// +kubebuilder:object:root=true
type WorkerConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Devices configure the disks and other devices of the machines. The root volume is the disk
	// "root-disk"; a data volume is the disk of its name.
	Devices *providerspec.Devices `json:"devices,omitempty"`
	// CPU is the topology, model and placement of the virtual CPUs. Default: one socket per CPU of
	// the machine type.
	CPU *kubevirtv1.CPU `json:"cpu,omitempty"`
	// Memory is the guest's memory. memory.guest must not exceed the memory of the machine type, or
	// its memory limit if machineTypes[].limits sets a higher one. Default: the memory of the machine
	// type.
	Memory *kubevirtv1.Memory `json:"memory,omitempty"`
	// OvercommitGuestOverhead requests no memory for the processes that run the machine. If the
	// provider node has no memory left, the machine can crash.
	OvercommitGuestOverhead bool `json:"overcommitGuestOverhead,omitempty"`
	// DNSPolicy is the DNS policy of the virtual machine's pod, whose DNS configuration the guest
	// receives by DHCP. Default: ClusterFirst, which is the provider cluster's DNS.
	// +kubebuilder:validation:Enum=ClusterFirst;ClusterFirstWithHostNet;Default;None
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`
	// DNSConfig is merged into the DNS configuration from dnsPolicy.
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`
	// DisablePreAllocatedDataVolumes makes each machine import its own root volume instead of
	// cloning a golden image.
	DisablePreAllocatedDataVolumes bool `json:"disablePreAllocatedDataVolumes,omitempty"`
	// VirtualMachineTemplate is a partial KubeVirt VirtualMachine, for settings without a field of
	// their own.
	VirtualMachineTemplate *providerspec.VirtualMachineTemplate `json:"virtualMachineTemplate,omitempty"`
	// NodeTemplate overrides the resources that cluster-autoscaler expects of a node of this pool.
	// Changes replace no machines.
	NodeTemplate *extensionsv1alpha1.NodeTemplate `json:"nodeTemplate,omitempty"`
}

// WorkerStatus is status.providerStatus of a Worker: the images that its machines use, also after
// they have been removed from the CloudProfile.
//
// +kubebuilder:object:root=true
type WorkerStatus struct {
	metav1.TypeMeta `json:",inline"`

	// MachineImages are the images of the worker pools.
	MachineImages []MachineImage `json:"machineImages,omitempty"`
	// NotMigratable are the worker pools whose machines cannot be live-migrated, by their configuration.
	// When their provider node is drained, they are replaced.
	NotMigratable []NotMigratablePool `json:"notMigratable,omitempty"`
}

// NotMigratablePool is a worker pool whose machines cannot be live-migrated.
type NotMigratablePool struct {
	// Name is the name of the worker pool.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Reason has the fields that prevent live migration, with the remedies.
	// +kubebuilder:validation:Required
	Reason string `json:"reason"`
}

// MachineImage is an image of a worker pool.
type MachineImage struct {
	// Name is the name of the image in the CloudProfile.
	// +kubebuilder:validation:Required
	Name string `json:"name"`
	// Version is the version of the image in the CloudProfile.
	// +kubebuilder:validation:Required
	Version string `json:"version"`
	// SourceURL is the address of the disk image. The archived extension wrote only this field.
	SourceURL string `json:"sourceUrl,omitempty"`
	// Source is the source of the disk image.
	Source *ImageSource `json:"source,omitempty"`
	// Architecture is the CPU architecture of the image, if the CloudProfile has no capabilities.
	Architecture *string `json:"architecture,omitempty"`
	// Capabilities are the capabilities of the image's flavor.
	Capabilities gardencorev1beta1.Capabilities `json:"capabilities,omitempty"`
}
