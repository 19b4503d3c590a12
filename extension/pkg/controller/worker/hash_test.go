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

	"machine type's storage": {false, func(s *setting) {
		s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse("30Gi"))}
	}},

	"nothing":             {false, func(*setting) {}},
	"labels":              {false, func(s *setting) { s.pool().Labels = map[string]string{"a": "b"} }},
	"annotations":         {false, func(s *setting) { s.pool().Annotations = map[string]string{"a": "b"} }},
	"taints":              {false, func(s *setting) { s.pool().Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}} }},
	"minimum and maximum": {false, func(s *setting) { s.pool().Minimum, s.pool().Maximum = 2, 9 }},
	"priority":            {false, func(s *setting) { s.pool().Priority = ptr.To[int32](5) }},
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

// TestWhatReplacesMachines compares the names of classes before and after each change:
// machine-controller-manager replaces machines whose class has another name.
func TestWhatReplacesMachines(t *testing.T) {
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

// TestStorageOfMachineTypeReplacesMachines changes the storage of a machine type, which is the root
// volume of pools without a volume.
func TestStorageOfMachineTypeReplacesMachines(t *testing.T) {
	t.Parallel()

	of := func(size string) *setting {
		s := rich()
		s.pool().Volume = nil
		s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse(size))}

		return s
	}

	require.NotEqual(t, classNameOf(t, of("30Gi")), classNameOf(t, of("40Gi")))
}

// TestHashIsStable freezes the hash: with another one, an update of the extension would replace all
// machines.
func TestHashIsStable(t *testing.T) {
	t.Parallel()

	require.Equal(t, seedNamespace+"-cpu-worker-z1-44851", classNameOf(t, guide()))
	require.Equal(t, seedNamespace+"-cpu-worker-z1-1b284", classNameOf(t, rich()))
}

// TestInPlaceUpdatesKeepClasses changes the hardware of a pool whose machines are updated in place:
// it holds for new machines only.
func TestInPlaceUpdatesKeepClasses(t *testing.T) {
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
