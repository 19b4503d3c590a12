// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// changes are changes of a Shoot or its CloudProfile, and whether they replace machines.
var changes = map[string]struct {
	rolls  bool
	change func(*setting)
}{
	"Gardener's own hash": {true, func(s *setting) { s.pool().NodeAgentSecretName = ptr.To("gardener-node-agent-cpu-worker-01234") }},
	"providerConfig":      {true, func(s *setting) { s.config = "cpu: {cores: 2}" }},
	"virtualMachineTemplate": {true, func(s *setting) {
		s.config = "virtualMachineTemplate: {spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}}"
	}},
	"network added":            {true, func(s *setting) { s.status.Networks = append(s.status.Networks, api.NetworkStatus{Name: "a/b"}) }},
	"network's configuration":  {true, func(s *setting) { s.status.Networks[0].SHA = "other" }},
	"network becomes default":  {true, func(s *setting) { s.status.Networks[0].Default = true }},
	"network's binding":        {true, func(s *setting) { s.status.Networks[0].Binding = &kubevirtv1.PluginBinding{Name: "passt"} }},
	"pod network's binding":    {true, func(s *setting) { s.status.PodNetwork = &api.PodNetwork{Binding: api.BindingPasst} }},
	"migration of bridges":     {false, func(s *setting) { s.status.PodNetwork = &api.PodNetwork{AllowBridgeLiveMigration: true} }},
	"zone replaced":            {true, func(s *setting) { s.pool().Zones[0] = "europe-west1-d" }},
	"zone appended":            {false, func(s *setting) { s.pool().Zones = append(s.pool().Zones, "europe-west1-d") }},
	"data volume added":        {true, func(s *setting) { s.pool().DataVolumes = append(s.pool().DataVolumes, dataVolumeOf("b", "1Gi")) }},
	"data volume's size":       {true, func(s *setting) { s.pool().DataVolumes[0].Size = "11Gi" }},
	"data volume's type":       {true, func(s *setting) { s.pool().DataVolumes[0].Type = ptr.To("fast") }},
	"root volume is encrypted": {true, func(s *setting) { s.pool().Volume.Encrypted = ptr.To(true) }},
	"data volume is encrypted": {true, func(s *setting) { s.pool().DataVolumes[0].Encrypted = ptr.To(true) }},
	"machine type's memory":    {true, func(s *setting) { s.machineType().Memory = resource.MustParse("8Gi") }},
	"machine type's CPU":       {true, func(s *setting) { s.machineType().CPU = resource.MustParse("2") }},
	"machine type's limits": {true, func(s *setting) {
		s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Limits: &api.ResourcesLimits{CPU: ptr.To(resource.MustParse("2"))}}}
	}},
	"machine type's GPUs": {true, func(s *setting) {
		s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", GPUs: []kubevirtv1.GPU{{Name: "gpu", DeviceName: "example.com/gpu"}}}}
	}},
	"machine type's claims": {true, func(s *setting) {
		s.profile.MachineTypes = []api.MachineType{{
			Name:           "standard-1",
			GPUs:           []kubevirtv1.GPU{{Name: "gpu", ClaimRequest: &kubevirtv1.ClaimRequest{ClaimName: "gpu", RequestName: "one"}}},
			ResourceClaims: []api.ResourceClaim{{Name: "gpu", ResourceClaimTemplateName: "a100"}},
		}}
	}},

	"machine type's storage": {false, func(s *setting) {
		s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse("30Gi"))}
	}},

	"nothing":     {false, func(*setting) {}},
	"labels":      {false, func(s *setting) { s.pool().Labels = map[string]string{"a": "b"} }},
	"annotations": {false, func(s *setting) { s.pool().Annotations = map[string]string{"a": "b"} }},
	"taints":      {false, func(s *setting) { s.pool().Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }},
	"minimum and maximum": {false, func(s *setting) {
		s.pool().Minimum = 2
		s.pool().Maximum = 9
	}},
	"priority": {false, func(s *setting) { s.pool().Priority = ptr.To[int32](5) }},
	"autoscaler options": {false, func(s *setting) {
		s.pool().ClusterAutoscaler = &extensionsv1alpha1.ClusterAutoscalerOptions{ScaleDownUtilizationThreshold: ptr.To("0.4")}
	}},
	"machine-controller-manager": {false, func(s *setting) {
		s.pool().MachineControllerManagerSettings = &gardencorev1beta1.MachineControllerManagerSettings{MaxEvictRetries: ptr.To[int32](3)}
	}},
	"node template":        {false, func(s *setting) { s.config = "nodeTemplate: {capacity: {example.com/gpu: 1}}" }},
	"empty providerConfig": {false, func(s *setting) { s.config = "devices: null" }},
	"image's address": {false, func(s *setting) {
		s.profile.MachineImages[0].Versions[0].SourceURL = "https://mirror.example.com/bionic.img"
	}},
	"another image": {false, func(s *setting) {
		s.profile.MachineImages = append(s.profile.MachineImages, api.MachineImages{Name: "other"})
	}},
	"storage class of the type":     {false, func(s *setting) { s.cluster.CloudProfile.Spec.VolumeTypes[0].Class = "encrypted" }},
	"data volume's size, rewritten": {false, func(s *setting) { s.pool().DataVolumes[0].Size = "10240Mi" }},
	"SSH key":                       {false, func(s *setting) { s.worker.Spec.SSHPublicKey = nil }},
	"namespace":                     {false, func(s *setting) { s.status.Namespace = "other" }},
}

func dataVolumeOf(name, size string) extensionsv1alpha1.DataVolume {
	return extensionsv1alpha1.DataVolume{Name: name, Type: ptr.To("default"), Size: size}
}

// rich is the guide's Shoot with a network and a data volume.
func rich() *setting {
	s := guide()
	s.status.Networks = []api.NetworkStatus{{Name: providerNamespace + "/net", SHA: "abc"}}
	s.pool().DataVolumes = []extensionsv1alpha1.DataVolume{dataVolumeOf("a", "10Gi")}
	s.profile.VolumeClasses = []api.VolumeClass{{Name: "default", Encrypted: true}, {Name: "encrypted", Encrypted: true}}

	return s
}

func classNameOf(t *testing.T, s *setting) string {
	t.Helper()

	deployments, err := s.delegate(t).GenerateMachineDeployments(t.Context())
	require.NoError(t, err)

	return deployments[0].ClassName
}

// TestHashOf compares the names of classes before and after each change:
// machine-controller-manager replaces machines whose class has another name.
func TestHashOf(t *testing.T) {
	t.Parallel()

	before := classNameOf(t, rich())

	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := rich()
			tc.change(s)

			if after := classNameOf(t, s); tc.rolls {
				require.NotEqual(t, before, after)
			} else {
				require.Equal(t, before, after)
			}
		})
	}
}

// TestHashOf_MachineTypeStorage changes the storage of a machine type, which is the root
// volume of pools without a volume.
func TestHashOf_MachineTypeStorage(t *testing.T) {
	t.Parallel()

	of := func(size string) *setting {
		s := rich()
		s.pool().Volume = nil
		s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse(size))}

		return s
	}

	require.NotEqual(t, classNameOf(t, of("30Gi")), classNameOf(t, of("40Gi")))
}

// frozen are specs whose hash must stay: with another one, an update of the extension, or of the types of
// KubeVirt and Kubernetes that it contains, would replace all machines. Together, they set each type of
// these APIs once.
var frozen = map[string]struct {
	hash   string
	change func(*setting)
}{
	"networks and data volumes": {"1b284", func(*setting) {}},
	"storage of the machine type": {"7d664", func(s *setting) {
		s.pool().Volume = nil
		s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse("30Gi"))}
	}},
	"encrypted volumes": {"50824", func(s *setting) {
		s.pool().Volume.Encrypted = ptr.To(true)
		s.pool().DataVolumes[0].Encrypted = ptr.To(true)
	}},
	"network attachment": {"32fce", func(s *setting) {
		s.status.Networks[0].Default = true
		s.status.Networks[0].Binding = &kubevirtv1.PluginBinding{Name: "passt"}
		s.status.Networks = append(s.status.Networks, api.NetworkStatus{Name: "other/net", Attachment: api.Attachment{MAC: providerspec.MACStable}})
	}},
	"cpu": {"d4ade", func(s *setting) {
		s.config = `cpu: {sockets: 1, cores: 2, threads: 1, maxSockets: 1, model: host-passthrough, dedicatedCpuPlacement: true, isolateEmulatorThread: true,
  features: [{name: vmx, policy: require}], numa: {guestMappingPassthrough: {}}, realtime: {mask: "0"}}
memory: {hugepages: {pageSize: 2Mi}}`
	}},
	"memory": {"06ca8", func(s *setting) {
		s.config = "memory: {guest: 3Gi, maxGuest: 4Gi, reservedOverhead: {addedOverhead: 64Mi, memLock: Required}}\novercommitGuestOverhead: true"
	}},
	"devices": {"3de5d", func(s *setting) {
		s.config = `devices:
  rng: {}
  blockMultiQueue: true
  networkInterfaceMultiQueue: true
  disks:
    - {name: root-disk, disk: {bus: virtio, pciAddress: "0000:81:01.0", readonly: false}, bootOrder: 1, serial: root, cache: none, io: native, dedicatedIOThread: true,
       blockSize: {custom: {logical: 512, physical: 4096, discardGranularity: 4096}}, errorPolicy: stop, tag: root}
    - {name: a, lun: {bus: scsi, reservation: true}, blockSize: {matchVolume: {enabled: true}}, shareable: false}`
	}},
	"cdrom": {"5e4ce", func(s *setting) {
		s.config = "devices: {disks: [{name: a, cdrom: {bus: sata, readonly: true, tray: closed}}]}"
	}},
	"dnsConfig": {"df302", func(s *setting) {
		s.config = `dnsPolicy: None
dnsConfig: {nameservers: [192.0.2.1], searches: [example.com], options: [{name: ndots, value: "2"}, {name: edns0}]}`
	}},
	"disablePreAllocatedDataVolumes": {"6fb88", func(s *setting) { s.config = "disablePreAllocatedDataVolumes: true" }},
	"virtualMachineTemplate": {"06eca", func(s *setting) {
		s.config = `virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {template: {metadata: {annotations: {c: d}}, spec: {
  terminationGracePeriodSeconds: 0, evictionStrategy: LiveMigrateIfPossible, domain: {devices: {tpm: {}, watchdog: {name: w, i6300esb: {action: reset}}}}}}}}`
	}},
	"limits, GPUs and host devices": {"c98bb", func(s *setting) {
		s.profile.MachineTypes = []api.MachineType{{
			Name:   "standard-1",
			Limits: &api.ResourcesLimits{CPU: ptr.To(resource.MustParse("2")), Memory: ptr.To(resource.MustParse("8Gi"))},
			GPUs: []kubevirtv1.GPU{{
				Name:       "gpu",
				DeviceName: "example.com/gpu",
				Tag:        "gpu",
				VirtualGPUOptions: &kubevirtv1.VGPUOptions{Display: &kubevirtv1.VGPUDisplayOptions{
					Enabled: ptr.To(true),
					RamFB:   &kubevirtv1.FeatureState{Enabled: ptr.To(false)},
				}},
			}},
			HostDevices: []kubevirtv1.HostDevice{{Name: "nic", DeviceName: "example.com/nic", Tag: "nic"}},
		}}
	}},
	"instancetype and preference": {"ceb74", func(s *setting) {
		s.profile.MachineTypes = []api.MachineType{{
			Name:         "standard-1",
			Instancetype: &kubevirtv1.InstancetypeMatcher{Name: "u1.small", Kind: "VirtualMachineInstancetype"},
			Preference:   &kubevirtv1.PreferenceMatcher{Name: "ubuntu", Kind: "VirtualMachinePreference"},
		}}
	}},
}

// TestHashOf_IsStable freezes the hashes.
func TestHashOf_IsStable(t *testing.T) {
	t.Parallel()

	require.Equal(t, seedNamespace+"-cpu-worker-z1-44851", classNameOf(t, guide()))

	for name, tc := range frozen {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := rich()
			tc.change(s)
			require.Equal(t, seedNamespace+"-cpu-worker-z1-"+tc.hash, classNameOf(t, s))
		})
	}
}

// TestHashOf_InPlaceUpdate changes the hardware of a pool whose machines are updated in place: the
// change applies to new machines only.
func TestHashOf_InPlaceUpdate(t *testing.T) {
	t.Parallel()

	inPlace := func(change func(*setting)) string {
		s := rich()
		s.pool().UpdateStrategy = ptr.To(gardencorev1beta1.AutoInPlaceUpdate)
		change(s)

		return classNameOf(t, s)
	}

	before := inPlace(func(*setting) {})
	require.Equal(t, before, inPlace(changes["providerConfig"].change))
	require.NotEqual(t, before, inPlace(func(s *setting) {
		s.pool().MachineImage.Version = "20.04"
		s.profile.MachineImages[0].Versions[0].Version = "20.04"
	}),
		"Gardener updates the operating system in place")
}
