package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
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

// ProviderSpec describes the virtual machines of one MachineClass.
type ProviderSpec struct {
	// APIVersion is APIVersion or empty.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is Kind or empty.
	Kind string `json:"kind,omitempty"`

	// Region is the value of the label topology.kubernetes.io/region of the provider nodes that may run the machine;
	// "default" stands for nodes without that label. Required.
	Region string `json:"region"`
	// Zone is the value of the label topology.kubernetes.io/zone of the provider nodes that may run the machine; "default"
	// stands for nodes without that label. Required.
	Zone string `json:"zone"`

	// Tags become labels of every object of the machine. TagCluster and TagRole are required.
	Tags map[string]string `json:"tags"`

	// Resources are the requests and limits of the virtual machine's pod, in KubeVirt's terms.
	Resources kubevirtv1.ResourceRequirements `json:"resources,omitempty"`
	// CPU is the virtual CPU topology and model, in KubeVirt's terms.
	CPU *kubevirtv1.CPU `json:"cpu,omitempty"`
	// Memory is the guest's memory, in KubeVirt's terms. Either its guest or hugepages, or a memory request in Resources,
	// is required.
	Memory *kubevirtv1.Memory `json:"memory,omitempty"`

	// RootVolume is the CDI DataVolume that the machine boots from: its source (or sourceRef) and its pvc or storage.
	RootVolume cdiv1beta1.DataVolumeSpec `json:"rootVolume"`

	// AdditionalVolumes are further disks of the machine.
	AdditionalVolumes []AdditionalVolume `json:"additionalVolumes,omitempty"`

	// Devices configure the machine's disks and devices.
	Devices *Devices `json:"devices,omitempty"`

	// DNSPolicy is that of the virtual machine's pod, whose DNS configuration the guest gets by DHCP. Default: the provider
	// cluster's.
	DNSPolicy corev1.DNSPolicy `json:"dnsPolicy,omitempty"`
	// DNSConfig is merged into what DNSPolicy gives.
	DNSConfig *corev1.PodDNSConfig `json:"dnsConfig,omitempty"`

	// Networks are the Multus networks of the machine. The machine is connected to the provider's pod network too, unless
	// one of them is the default.
	Networks []Network `json:"networks,omitempty"`
}

// AdditionalVolume is a further disk: a DataVolume of the machine's own, or something that exists on the provider cluster.
type AdditionalVolume struct {
	// Name is the name of the volume and its disk, a DNS label of at most 57 characters. Required.
	Name string `json:"name"`
	// DataVolume is a CDI DataVolume, created and deleted with the machine. Either it or VolumeSource is required.
	DataVolume *cdiv1beta1.DataVolumeSpec `json:"dataVolume,omitempty"`
	// VolumeSource is something that exists in the namespace of the machine. Either it or DataVolume is required.
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
	// NetworkInterfaceMultiqueue is NetworkInterfaceMultiQueue in KubeVirt's and the predecessor's spelling.
	NetworkInterfaceMultiqueue bool `json:"networkInterfaceMultiqueue,omitempty"`
}

// Network is a Multus network of the provider cluster.
type Network struct {
	// Name is the NetworkAttachmentDefinition: "name", or "namespace/name". Required.
	Name string `json:"name"`
	// Default makes this network the machine's primary one, in place of the pod network. At most one network may be it.
	Default bool `json:"default,omitempty"`
}
