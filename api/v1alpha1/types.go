package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	// APIVersion is the apiVersion of a ProviderSpec. Specs written for the driver's predecessor carry none.
	APIVersion = "kubevirt.machine.gardener.cloud/v1alpha1"
	// Kind is the kind of a ProviderSpec. Specs written for the driver's predecessor carry none.
	Kind = "ProviderSpec"

	// TagCluster is the tag, and the label of every object the driver creates, that names the shoot (Gardener's technical
	// ID). It must be unique per provider namespace.
	TagCluster = "mcm.gardener.cloud/cluster"
	// TagRole is the tag, and the label of every machine's objects, that tells worker machines from other objects of the
	// same shoot. Together with TagCluster it is the selector that listing and deletion trust.
	TagRole = "mcm.gardener.cloud/role"

	// LabelWorkerPool is Gardener's label for the worker pool: on the shoot's nodes, and on every object of a machine.
	LabelWorkerPool = "worker.gardener.cloud/pool"

	// AnyTopology is the region or zone that means provider nodes without the respective topology label.
	AnyTopology = "default"

	// RootDisk is the name of the disk and volume that the machine boots from.
	RootDisk = "root-disk"
	// CloudInitVolume is the name of the disk and volume that cloud-init reads.
	CloudInitVolume = "cloudinit"

	// SecretKeyKubeconfig is the key of a MachineClass's Secret that holds the kubeconfig of the provider cluster.
	SecretKeyKubeconfig = "kubeconfig"
	// SecretKeyUserData is the key of a MachineClass's Secret that holds the user data, in which machine-controller-manager
	// replaces the bootstrap token and the machine name.
	SecretKeyUserData = "userData"
)

// ProviderSpec describes the virtual machines of one MachineClass of machine-controller-manager, whose providerSpec it is.
type ProviderSpec struct {
	// APIVersion is kubevirt.machine.gardener.cloud/v1alpha1. Specs written for the driver's predecessor have none.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is ProviderSpec. Specs written for the driver's predecessor have none.
	Kind string `json:"kind,omitempty"`

	// Region is the value of the label topology.kubernetes.io/region of the provider nodes that may run the machine;
	// "default" stands for nodes without that label.
	Region string `json:"region"`
	// Zone is the value of the label topology.kubernetes.io/zone of the provider nodes that may run the machine; "default"
	// stands for nodes without that label.
	Zone string `json:"zone"`

	// Tags become labels of every object of the machine. "mcm.gardener.cloud/cluster" (the shoot's technical ID, unique per
	// namespace of the provider cluster) and "mcm.gardener.cloud/role" are required: machines are listed and deleted by them.
	Tags map[string]string `json:"tags"`

	// Resources are the requests and limits of the virtual machine's pod, and overcommitGuestOverhead.
	Resources kubevirtv1.ResourceRequirements `json:"resources,omitempty"`
	// CPU is the virtual CPU's topology, model and placement. Default: one core, or as many sockets as resources have CPUs.
	CPU *kubevirtv1.CPU `json:"cpu,omitempty"`
	// Memory is the guest's memory. Its guest, a memory request or limit in resources, or an instancetype is required.
	// Default: the memory that resources request.
	Memory *kubevirtv1.Memory `json:"memory,omitempty"`

	// RootVolume is what the machine boots from.
	RootVolume RootVolume `json:"rootVolume"`
	// AdditionalVolumes are further disks of the machine.
	AdditionalVolumes []AdditionalVolume `json:"additionalVolumes,omitempty"`
	// GoldenImage configures the image that an importing root volume is cloned from. Default: an image of the root volume's
	// size.
	GoldenImage *GoldenImage `json:"goldenImage,omitempty"`
	// DisablePreAllocatedDataVolumes makes each machine import its root volume by itself, instead of cloning a golden image.
	DisablePreAllocatedDataVolumes bool `json:"disablePreAllocatedDataVolumes,omitempty"`

	// Devices configure the machine's disks and devices.
	Devices *Devices `json:"devices,omitempty"`

	// Networks are the machine's networks. The machine is connected to the provider's pod network too, unless one of them is
	// the default. Default: the pod network, by a bridge.
	Networks []Network `json:"networks,omitempty"`
	// DNSPolicy is that of the virtual machine's pod, whose DNS configuration the guest gets by DHCP. Default: ClusterFirst,
	// which is the provider cluster's DNS.
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`
	// DNSConfig is merged into what dnsPolicy gives.
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`

	// CloudInit says how the user data reaches the guest. Default: as NoCloud.
	CloudInit *CloudInit `json:"cloudInit,omitempty"`
	// SSHKeys are public keys, each a line of an authorized_keys file, for the image's default user. They travel as metadata
	// beside the user data, which is not changed.
	SSHKeys []string `json:"sshKeys,omitempty"`

	// VirtualMachineTemplate is a partial KubeVirt VirtualMachine, for everything that has no field here.
	VirtualMachineTemplate *VirtualMachineTemplate `json:"virtualMachineTemplate,omitempty"`
}

// CloudInitType is a way in which cloud-init finds its data.
type CloudInitType string

const (
	// CloudInitNoCloud is a disk labelled cidata. Its instance ID is the firmware's UUID, so that a new machine of an old
	// name is a new instance to cloud-init.
	CloudInitNoCloud CloudInitType = "NoCloud"
	// CloudInitConfigDrive is a disk labelled config-2, which Ignition reads too.
	CloudInitConfigDrive CloudInitType = "ConfigDrive"
)

// CloudInit says how the user data reaches the guest.
type CloudInit struct {
	// Type is NoCloud, a disk labelled cidata, or ConfigDrive, a disk labelled config-2, which Ignition reads too. Default:
	// NoCloud.
	Type CloudInitType `json:"type,omitempty"`
	// NetworkData is the network configuration for the guest: version 1 or 2 for NoCloud, an OpenStack network_data.json for
	// ConfigDrive. Default: none for a machine with one interface; for several, with NoCloud, DHCPv4 and DHCPv6 on each.
	NetworkData string `json:"networkData,omitempty"`
}

// Devices configure the machine's disks and devices, in KubeVirt's terms.
type Devices struct {
	// Disks configure the disks of volumes, by name: "root-disk", or an additional volume's. Default: a virtio disk each.
	Disks []kubevirtv1.Disk `json:"disks,omitempty"`
	// Rng gives the guest a random number generator.
	Rng *kubevirtv1.Rng `json:"rng,omitempty"`
	// BlockMultiQueue gives virtio disks one queue per virtual CPU.
	BlockMultiQueue bool `json:"blockMultiQueue,omitempty"`
	// NetworkInterfaceMultiQueue gives virtio network interfaces one queue per virtual CPU.
	NetworkInterfaceMultiQueue bool `json:"networkInterfaceMultiQueue,omitempty"`
	// NetworkInterfaceMultiqueue is networkInterfaceMultiQueue in the predecessor's spelling. Deprecated.
	NetworkInterfaceMultiqueue bool `json:"networkInterfaceMultiqueue,omitempty"`
}
