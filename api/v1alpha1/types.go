// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	// APIVersion is the apiVersion of a ProviderSpec. Specs for the driver's predecessor have none.
	APIVersion = "kubevirt.machine.gardener.cloud/v1alpha1"
	// Kind is the kind of a ProviderSpec. Specs for the driver's predecessor have none.
	Kind = "ProviderSpec"

	// TagCluster is the tag, and the label of every object that the driver creates, with the
	// shoot's technical ID in Gardener. It must be unique per provider namespace.
	TagCluster = "mcm.gardener.cloud/cluster"
	// TagRole is the tag, and the label of every machine's objects, that distinguishes worker
	// machines from other objects of the same shoot. Machines are listed and deleted by TagCluster
	// and TagRole.
	TagRole = "mcm.gardener.cloud/role"
	// TagShootUID is an optional tag with the UID of the Shoot. The Gardener extension sets it, and the
	// same label on all objects that it creates on a provider cluster: two Gardener landscapes can have
	// Shoots with one technical ID. Golden images have the label, too; it is no part of their names.
	TagShootUID = "kubevirt.provider.extensions.gardener.cloud/shoot-uid"

	// LabelWorkerPool is Gardener's label for the worker pool, on the shoot's nodes and on every
	// object of a machine.
	LabelWorkerPool = "worker.gardener.cloud/pool"

	// AnyTopology is the region or zone of provider nodes without the respective topology label.
	AnyTopology = "default"

	// RootDisk is the name of the disk and volume that the machine boots from.
	RootDisk = "root-disk"
	// CloudInitVolume is the name of the disk and volume that cloud-init reads.
	CloudInitVolume = "cloudinit"

	// SecretKeyKubeconfig is the key of the provider cluster's kubeconfig in a MachineClass's
	// Secret.
	SecretKeyKubeconfig = "kubeconfig"
	// SecretKeyUserData is the key of the user data in a MachineClass's Secret.
	// machine-controller-manager replaces the bootstrap token and the machine name in it.
	SecretKeyUserData = "userData"
)

// ProviderSpec describes the virtual machines of a worker pool. It is the providerSpec of a
// MachineClass of machine-controller-manager.
type ProviderSpec struct {
	// APIVersion is kubevirt.machine.gardener.cloud/v1alpha1. Specs for the driver's predecessor
	// have none.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is ProviderSpec. Specs for the driver's predecessor have none.
	Kind string `json:"kind,omitempty"`

	// Region is the value of the label topology.kubernetes.io/region of the provider nodes that may
	// run the machine; "default" selects nodes without that label.
	// +kubebuilder:validation:Required
	Region string `json:"region"`
	// Zone is the value of the label topology.kubernetes.io/zone of the provider nodes that may run
	// the machine; "default" selects nodes without that label.
	// +kubebuilder:validation:Required
	Zone string `json:"zone"`

	// Tags become labels of every object of the machine. "mcm.gardener.cloud/cluster" (the shoot's
	// technical ID, unique per namespace of the provider cluster) and "mcm.gardener.cloud/role" are
	// required: machines are listed and deleted by them.
	// +schema:requiredKeys={"mcm.gardener.cloud/cluster","mcm.gardener.cloud/role"}
	// +kubebuilder:validation:Required
	Tags map[string]string `json:"tags"`

	// Resources are the requests and limits of the virtual machine's pod, and
	// overcommitGuestOverhead.
	Resources kubevirtv1.ResourceRequirements `json:"resources,omitempty"`
	// CPU is the topology, model and placement of the virtual CPUs. Default: one core, or one
	// socket per CPU in resources.
	CPU *kubevirtv1.CPU `json:"cpu,omitempty"`
	// Memory is the guest's memory. memory.guest, a memory request or limit in resources, or an
	// instancetype is required. Default: the memory request in resources.
	Memory *kubevirtv1.Memory `json:"memory,omitempty"`

	// RootVolume is the disk that the machine boots from.
	// +kubebuilder:validation:Required
	RootVolume RootVolume `json:"rootVolume"`
	// AdditionalVolumes are additional disks of the machine.
	AdditionalVolumes []AdditionalVolume `json:"additionalVolumes,omitempty"`
	// GoldenImage configures the image from which imported root volumes are cloned. Default: an
	// image of the root volume's size.
	GoldenImage *GoldenImage `json:"goldenImage,omitempty"`
	// DisablePreAllocatedDataVolumes makes each machine import its own root volume instead of
	// cloning a golden image.
	DisablePreAllocatedDataVolumes bool `json:"disablePreAllocatedDataVolumes,omitempty"`

	// Devices configure the machine's disks and other devices.
	Devices *Devices `json:"devices,omitempty"`

	// Networks are the machine's networks. The machine is also connected to the provider's pod
	// network, unless one of the networks is the default. Default: the pod network, with a bridge.
	Networks []Network `json:"networks,omitempty"`
	// DNSPolicy is the DNS policy of the virtual machine's pod, whose DNS configuration the guest
	// receives by DHCP. Default: ClusterFirst, which is the provider cluster's DNS.
	// +kubebuilder:validation:Enum=ClusterFirst;ClusterFirstWithHostNet;Default;None
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`
	// DNSConfig is merged into the DNS configuration from dnsPolicy.
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`

	// CloudInit configures how the guest receives the user data. Default: as NoCloud.
	CloudInit *CloudInit `json:"cloudInit,omitempty"`
	// SSHKeys are public keys for the image's default user, each in the form of a line of an
	// authorized_keys file. The guest receives them as metadata; the user data is not changed.
	SSHKeys []string `json:"sshKeys,omitempty"`

	// VirtualMachineTemplate is a partial KubeVirt VirtualMachine, for settings without a field of
	// their own.
	VirtualMachineTemplate *VirtualMachineTemplate `json:"virtualMachineTemplate,omitempty"`
}

// CloudInitType is a data source of cloud-init.
// +kubebuilder:validation:Enum=NoCloud;ConfigDrive
type CloudInitType string

const (
	// CloudInitNoCloud is a disk labeled cidata. Its instance ID is the firmware's UUID, so that
	// cloud-init considers a new machine with an old name a new instance.
	CloudInitNoCloud CloudInitType = "NoCloud"
	// CloudInitConfigDrive is a disk labeled config-2, which Ignition reads, too.
	CloudInitConfigDrive CloudInitType = "ConfigDrive"
)

// CloudInit configures how the guest receives the user data.
type CloudInit struct {
	// Type is NoCloud, a disk labeled cidata, or ConfigDrive, a disk labeled config-2, which
	// Ignition reads, too. Default: NoCloud.
	Type CloudInitType `json:"type,omitempty"`
	// NetworkData is the network configuration of the guest: version 1 or 2 for NoCloud, an
	// OpenStack network_data.json for ConfigDrive. Default: with NoCloud, DHCPv4 on one interface, or
	// DHCPv4 and DHCPv6 on each of several; the image's own with ConfigDrive, and for one interface
	// that keeps its MAC address or has an unpredictable name.
	NetworkData string `json:"networkData,omitempty"`
}

// Devices configure the machine's disks and other devices, as in KubeVirt.
type Devices struct {
	// Disks overrides how volumes are attached. An entry's name is "root-disk" or the name of an
	// additional volume; volumes without an entry get a virtio disk.
	Disks []kubevirtv1.Disk `json:"disks,omitempty"`
	// Rng gives the guest a random number generator.
	Rng *kubevirtv1.Rng `json:"rng,omitempty"`
	// BlockMultiQueue gives virtio disks one queue per virtual CPU.
	BlockMultiQueue bool `json:"blockMultiQueue,omitempty"`
	// NetworkInterfaceMultiQueue gives virtio network interfaces one queue per virtual CPU.
	NetworkInterfaceMultiQueue bool `json:"networkInterfaceMultiQueue,omitempty"`
	// NetworkInterfaceMultiqueue is the predecessor's spelling of networkInterfaceMultiQueue.
	// Deprecated.
	NetworkInterfaceMultiqueue bool `json:"networkInterfaceMultiqueue,omitempty"`
}
