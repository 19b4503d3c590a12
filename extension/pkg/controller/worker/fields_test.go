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
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// TestNewPool_Fields follows fields of the Shoot and the CloudProfile into the ProviderSpec.
func TestNewPool_Fields(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(*setting)
		check  func(*testing.T, *providerspec.ProviderSpec)
	}{
		"DataVolumes": {
			func(s *setting) {
				s.pool().DataVolumes = []extensionsv1alpha1.DataVolume{{Name: "volume-1", Type: ptr.To("fast"), Size: "10Gi"}}
				s.config = "devices: {disks: [{name: volume-1, disk: {bus: sata}}]}"
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()

				v := spec.AdditionalVolumes[0]
				require.Equal(t, "volume-1", v.Name)
				require.NotNil(t, v.DataVolume.Source.Blank)
				require.Equal(t, "nvme", *v.DataVolume.Storage.StorageClassName)
				require.Equal(t, corev1.PersistentVolumeBlock, *v.DataVolume.Storage.VolumeMode, "Gardener finds the kubelet's volume by its exact size")
				require.EqualValues(t, "sata", spec.Devices.Disks[0].Disk.Bus)
			},
		},
		"StorageOfTheMachineType": {
			func(s *setting) {
				s.pool().Volume = nil
				s.machineType().Storage = &gardencorev1beta1.MachineTypeStorage{Class: "nvme", StorageSize: ptr.To(resource.MustParse("30Gi"))}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, "nvme", *spec.RootVolume.Storage.StorageClassName)
				require.Equal(t, "30Gi", spec.RootVolume.Size().String())
			},
		},
		"Networks": {
			func(s *setting) {
				s.status.Networks = []api.NetworkStatus{
					{Name: "ns/a", Default: true, SHA: "abc"},
					{Name: "ns/b", SHA: "def", Attachment: api.Attachment{MAC: providerspec.MACStable, Binding: &kubevirtv1.PluginBinding{Name: "passt"}}},
				}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, []providerspec.Network{{Name: "ns/a", Default: true}, {Name: "ns/b", MAC: providerspec.MACStable, Binding: &kubevirtv1.PluginBinding{Name: "passt"}}}, spec.Networks)
			},
		},
		"Pod network": {
			func(s *setting) {
				s.status.Networks = []api.NetworkStatus{{Name: "ns/a"}}
				s.status.PodNetwork = &api.PodNetwork{Binding: "l2bridge"}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, []providerspec.Network{{Name: "ns/a"}, {Pod: &providerspec.PodNetwork{}, Binding: &kubevirtv1.PluginBinding{Name: "l2bridge"}}}, spec.Networks)
			},
		},
		"Masquerade": {
			func(s *setting) { s.status.PodNetwork = &api.PodNetwork{Binding: api.BindingMasquerade} },
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, &kubevirtv1.InterfaceMasquerade{}, spec.PrimaryNetwork().Masquerade)
			},
		},
		"Passt": {
			func(s *setting) { s.status.PodNetwork = &api.PodNetwork{Binding: api.BindingPasst} },
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, &kubevirtv1.InterfacePasstBinding{}, spec.PrimaryNetwork().PasstBinding)
			},
		},
		"Migration of bridges": {
			func(s *setting) { s.status.PodNetwork = &api.PodNetwork{AllowBridgeLiveMigration: true} },
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.True(t, spec.PrimaryNetwork().Pod.AllowBridgeLiveMigration)
			},
		},
		"Limits": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Limits: &api.ResourcesLimits{CPU: ptr.To(resource.MustParse("2")), Memory: ptr.To(resource.MustParse("8Gi"))}}}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, "8Gi", spec.Resources.Limits.Memory().String())
				require.Equal(t, "2", spec.Resources.Limits.Cpu().String())
			},
		},
		"Instancetype": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{
					Name:         "standard-1",
					Instancetype: &kubevirtv1.InstancetypeMatcher{Name: "u1.small"},
					Preference:   &kubevirtv1.PreferenceMatcher{Name: "ubuntu"},
				}}
				s.config = "virtualMachineTemplate: {spec: {template: {spec: {terminationGracePeriodSeconds: 0}}}}"
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Empty(t, spec.Resources.Requests)
				require.Equal(t, "u1.small", spec.VirtualMachineTemplate.Spec.Instancetype.Name)
				require.Equal(t, "ubuntu", spec.VirtualMachineTemplate.Spec.Preference.Name)

				template, err := spec.VirtualMachineTemplate.Given()
				require.NoError(t, err)
				require.Contains(t, string(template), `"terminationGracePeriodSeconds":0`)
			},
		},
		"MemoryUpToTheLimit": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Limits: &api.ResourcesLimits{Memory: ptr.To(resource.MustParse("8Gi"))}}}
				s.config = "memory: {guest: 6Gi}"
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, "6Gi", spec.Memory.Guest.String())
			},
		},
		"GPUs": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{
					Name:        "standard-1",
					GPUs:        []kubevirtv1.GPU{{Name: "gpu1", DeviceName: "example.com/A100"}},
					HostDevices: []kubevirtv1.HostDevice{{Name: "nic1", DeviceName: "example.com/nic"}},
				}}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()

				devices := spec.VirtualMachineTemplate.Spec.Template.Spec.Domain.Devices
				require.Equal(t, "example.com/A100", devices.GPUs[0].DeviceName)
				require.Equal(t, "example.com/nic", devices.HostDevices[0].DeviceName)
			},
		},
		"ResourceClaims": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{
					Name:           "standard-1",
					GPUs:           []kubevirtv1.GPU{{Name: "gpu1", ClaimRequest: &kubevirtv1.ClaimRequest{ClaimName: "gpu", RequestName: "one"}}},
					ResourceClaims: []api.ResourceClaim{{Name: "gpu", ResourceClaimTemplateName: "a100"}},
				}}
				s.config = "virtualMachineTemplate: {spec: {template: {spec: {tolerations: [{operator: Exists}]}}}}"
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()

				instance := spec.VirtualMachineTemplate.Spec.Template.Spec
				require.Equal(t, "gpu", instance.Domain.Devices.GPUs[0].ClaimName)
				require.Equal(t, "one", instance.Domain.Devices.GPUs[0].RequestName)
				require.Equal(t, []kubevirtv1.VirtualMachineInstanceResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("a100")}}, instance.ResourceClaims)
				require.Len(t, instance.Tolerations, 1, "the pool's own template remains")
			},
		},
		"DataSource": {
			func(s *setting) {
				s.profile.MachineImages[0].Versions[0].ImageSource = api.ImageSource{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "ubuntu"}}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, "ubuntu", spec.RootVolume.SourceRef.Name)
				require.Nil(t, spec.RootVolume.Source)
			},
		},
		"ContainerDisk": {
			func(s *setting) {
				s.profile.MachineImages[0].Versions[0].ImageSource = api.ImageSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "registry.example.com/ubuntu:18.04"}}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, "registry.example.com/ubuntu:18.04", spec.RootVolume.ContainerDisk.Image)
				require.Nil(t, spec.RootVolume.Storage)
			},
		},
		"Checksum, Ignition and one image for all sizes": {
			func(s *setting) {
				s.profile.MachineImages[0].Versions[0].ImageSource = api.ImageSource{
					Source:    &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: "https://images.example.com/a"}},
					CloudInit: &providerspec.CloudInit{Type: providerspec.CloudInitConfigDrive},
					Size:      ptr.To(resource.MustParse("5Gi")),
				}
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Equal(t, providerspec.CloudInitConfigDrive, spec.CloudInit.Type)
				require.Equal(t, "5Gi", spec.GoldenImage.Size.String())
			},
		},
		"NoSSH": {
			func(s *setting) { s.worker.Spec.SSHPublicKey = nil },
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.Empty(t, spec.SSHKeys, "SSH access is disabled")
			},
		},
		"WorkerConfig": {
			func(s *setting) {
				s.config = `
cpu: {sockets: 2, cores: 1, threads: 1}
memory: {guest: 1Gi}
overcommitGuestOverhead: true
dnsPolicy: None
dnsConfig: {nameservers: [8.8.8.8]}
disablePreAllocatedDataVolumes: true`
				s.machineType().Memory = resource.MustParse("1Gi")
			},
			func(t *testing.T, spec *providerspec.ProviderSpec) {
				t.Helper()
				require.EqualValues(t, 2, spec.CPU.Sockets)
				require.Equal(t, "1Gi", spec.Memory.Guest.String())
				require.True(t, spec.Resources.OvercommitGuestOverhead)
				require.Equal(t, corev1.DNSNone, spec.DNSPolicy)
				require.Equal(t, []string{"8.8.8.8"}, spec.DNSConfig.Nameservers)
				require.False(t, spec.UsesGoldenImage())
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			tc.change(s)
			tc.check(t, s.specs(t)[0])
		})
	}
}

// TestNewPool_ErrorsNameShootField requires errors to name the field in the user's own YAML.
func TestNewPool_ErrorsNameShootField(t *testing.T) {
	t.Parallel()

	const pool = "spec.provider.workers[0]"

	const template = pool + ".providerConfig.virtualMachineTemplate.spec"

	tests := map[string]struct {
		change func(*setting)
		want   []string
	}{
		"UnknownField": {func(s *setting) { s.config = "cpus: {cores: 2}" }, []string{pool + ".providerConfig.cpus"}},
		"Template": {
			func(s *setting) { s.config = "virtualMachineTemplate: {spec: {template: {spec: {hostname: a}}}}" },
			[]string{pool + ".providerConfig.virtualMachineTemplate.spec.template.spec.hostname"},
		},
		"MachineType": {func(s *setting) { s.pool().MachineType = "unknown" }, []string{pool + ".machine.type"}},
		"Image":       {func(s *setting) { s.pool().MachineImage.Version = "0.1" }, []string{pool + ".machine.image", "ubuntu 0.1"}},
		"VolumeType":  {func(s *setting) { s.pool().Volume.Type = ptr.To("unknown") }, []string{pool + ".volume.type"}},
		"Size":        {func(s *setting) { s.pool().Volume.Size = "many" }, []string{pool + ".volume.size"}},
		"NoVolume":    {func(s *setting) { s.pool().Volume = nil }, []string{pool + ".volume"}},
		"Encrypted":   {func(s *setting) { s.pool().Volume.Encrypted = ptr.To(true) }, []string{pool + ".volume.encrypted"}},
		"Zone":        {func(s *setting) { s.pool().Zones = []string{"not a label"} }, []string{pool + ".zones[0]"}},
		"Region":      {func(s *setting) { s.worker.Spec.Region = "not a label" }, []string{"spec.region"}},
		"Disk": {
			func(s *setting) { s.config = "devices: {disks: [{name: unknown, disk: {}}]}" },
			[]string{pool + ".providerConfig.devices.disks[0].name"},
		},
		"ImageSource": {
			func(s *setting) { s.profile.MachineImages[0].Versions[0].SourceURL = "ftp://a" },
			[]string{"CloudProfile.spec.providerConfig.machineImages[ubuntu].versions[18.04]"},
		},
		"Limits": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Limits: &api.ResourcesLimits{CPU: ptr.To(resource.MustParse("-1"))}}}
			},
			[]string{"CloudProfile.spec.providerConfig.machineTypes[standard-1].limits"},
		},
		"Hardware that the operator does not offer": {
			func(s *setting) {
				s.config = "virtualMachineTemplate: {spec: {instancetype: {name: b}, preference: {name: c}, template: {spec: {domain: {devices: " +
					"{gpus: [{name: a, deviceName: a/b}], hostDevices: [{name: b, deviceName: a/b}]}, memory: {guest: 1Gi}, resources: {requests: {cpu: 1}}}, resourceClaims: [{name: a}]}}}}"
			},
			[]string{
				template + ".instancetype", template + ".preference", template + ".template.spec.domain.devices.gpus",
				template + ".template.spec.domain.devices.hostDevices", template + ".template.spec.domain.memory",
				template + ".template.spec.domain.resources", template + ".template.spec.resourceClaims", "machine type of the CloudProfile",
			},
		},
		"More memory than the machine type": {
			func(s *setting) { s.config = "memory: {guest: 5Gi}" },
			[]string{pool + ".providerConfig.memory.guest", "must not exceed 4Gi, the maximum of machine type standard-1"},
		},
		"CPU and memory of an instance type": {
			func(s *setting) {
				s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Instancetype: &kubevirtv1.InstancetypeMatcher{Name: "u1.small"}}}
				s.config = "cpu: {sockets: 2}\nmemory: {guest: 1Gi}"
			},
			[]string{pool + ".providerConfig.cpu", pool + ".providerConfig.memory", "the instance type of the machine type defines it"},
		},
		"No zones": {func(s *setting) { s.pool().Zones = nil }, []string{pool + ".zones"}},
		"Encrypted container disk": {
			func(s *setting) {
				s.profile.MachineImages[0].Versions[0].ImageSource = api.ImageSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "a/b:c"}}
				s.profile.VolumeClasses = []api.VolumeClass{{Name: s.cluster.CloudProfile.Spec.VolumeTypes[0].Class, Encrypted: true}}
				s.pool().Volume.Encrypted = ptr.To(true)
			},
			[]string{pool + ".volume.encrypted", "container disk"},
		},
		"All at once": {
			func(s *setting) {
				s.pool().MachineType = "unknown"
				s.pool().Volume.Size = "many"
				s.config = "cpus: {}"
			},
			[]string{pool + ".machine.type", pool + ".volume.size", pool + ".providerConfig.cpus"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			tc.change(s)

			_, err := s.delegate(t).generated(t.Context())
			require.Error(t, err)

			for _, text := range tc.want {
				require.ErrorContains(t, err, text)
			}

			require.NotContains(t, err.Error(), "providerSpec.")
		})
	}
}

// TestNodeTemplateOf_GPUs derives the GPUs of a node of a pool without machines from its machine type.
func TestNodeTemplateOf_GPUs(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		change func(*setting)
		want   string
	}{
		"None": {"it passes none through", func(*setting) {}, "0"},
		"GPUs": {"it passes two through, whatever gardenlet copied before", func(s *setting) {
			s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", GPUs: []kubevirtv1.GPU{{Name: "a", DeviceName: "a/b"}, {Name: "b", DeviceName: "a/b"}}}}
		}, "2"},
		"Removed": {"gardenlet keeps the template of the old machine type", func(s *setting) {
			s.worker.Spec.Pools[0].NodeTemplate = &extensionsv1alpha1.NodeTemplate{Capacity: corev1.ResourceList{"gpu": resource.MustParse("1")}}
		}, "0"},
		"Instancetype": {"only the CloudProfile declares its GPUs", func(s *setting) {
			s.machineType().GPU = resource.MustParse("4")
			s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", Instancetype: &kubevirtv1.InstancetypeMatcher{Name: "gpu"}}}
		}, "4"},
		"Override": {"the WorkerConfig has the last word", func(s *setting) {
			s.profile.MachineTypes = []api.MachineType{{Name: "standard-1", GPUs: []kubevirtv1.GPU{{Name: "a", DeviceName: "a/b"}}}}
			s.config = "nodeTemplate: {capacity: {gpu: 7}}"
		}, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			tc.change(s)

			w, err := s.delegate(t).generated(t.Context())
			require.NoError(t, err)
			require.Equal(t, tc.want, w.classes[0].object.NodeTemplate.Capacity.Name("gpu", resource.DecimalSI).String(), tc.reason)
		})
	}
}
