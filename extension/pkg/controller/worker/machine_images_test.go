// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

func source(url string) api.ImageSource { return api.ImageSource{SourceURL: url} }

func firmware(values ...string) gardencorev1beta1.Capabilities {
	return gardencorev1beta1.Capabilities{"architecture": {"amd64"}, "firmware": values}
}

// TestNewPool_Image selects the image by architecture, by capabilities, and from the status.
func TestNewPool_Image(t *testing.T) {
	t.Parallel()

	definitions := []gardencorev1beta1.CapabilityDefinition{
		{Name: "architecture", Values: []string{"amd64", "arm64"}}, {Name: "firmware", Values: []string{"uefi", "bios"}},
	}

	tests := map[string]struct {
		change func(*setting)
		want   string
	}{
		"Architecture": {func(s *setting) {
			s.pool().Architecture = ptr.To("arm64")
			s.profile.MachineImages[0].Versions = append(s.profile.MachineImages[0].Versions, api.MachineImageVersion{
				Version:      "18.04",
				ImageSource:  source("https://images.example.com/arm64"),
				Architecture: ptr.To("arm64"),
			})
		}, "https://images.example.com/arm64"},
		"Flavor": {func(s *setting) {
			s.cluster.CloudProfile.Spec.MachineCapabilities = definitions
			s.machineType().Capabilities = firmware("bios")
			s.profile.MachineImages[0].Versions[0] = api.MachineImageVersion{
				Version: "18.04",
				CapabilityFlavors: []api.MachineImageFlavor{
					{ImageSource: source("https://images.example.com/uefi"), Capabilities: firmware("uefi")},
					{ImageSource: source("https://images.example.com/bios"), Capabilities: firmware("bios")},
				},
			}
		}, "https://images.example.com/bios"},
		"BestFlavor": {func(s *setting) {
			s.cluster.CloudProfile.Spec.MachineCapabilities = definitions
			s.profile.MachineImages[0].Versions[0] = api.MachineImageVersion{
				Version: "18.04",
				CapabilityFlavors: []api.MachineImageFlavor{
					{ImageSource: source("https://images.example.com/bios"), Capabilities: firmware("bios")},
					{ImageSource: source("https://images.example.com/uefi"), Capabilities: firmware("uefi")},
				},
			}
		}, "https://images.example.com/uefi"},
		"Version without flavors": {func(s *setting) { s.cluster.CloudProfile.Spec.MachineCapabilities = definitions }, "https://images.example.com/bionic.img"},
		"Status of 2020": {func(s *setting) {
			s.profile.MachineImages[0].Versions[0].Version = "20.04"
			s.worker.Status.ProviderStatus = nil
			s.images(api.MachineImage{Name: "ubuntu", Version: "18.04", SourceURL: "https://images.example.com/2020"})
		}, "https://images.example.com/2020"},
		"Status": {func(s *setting) {
			s.profile.MachineImages[0].Versions[0].Version = "20.04"
			s.images(api.MachineImage{Name: "ubuntu", Version: "18.04", Source: ptr.To(source("https://images.example.com/removed")), Architecture: ptr.To("amd64")})
		}, "https://images.example.com/removed"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			tc.change(s)
			require.Equal(t, tc.want, s.specs(t)[0].RootVolume.Source.HTTP.URL)
		})
	}
}

// images sets the images in the status of the Worker.
func (s *setting) images(images ...api.MachineImage) {
	s.used = &api.WorkerStatus{TypeMeta: api.TypeMeta("WorkerStatus"), MachineImages: images}
}

// TestUpdateMachineImagesStatus writes the status, and finds the image in it after the CloudProfile has lost
// the version. A second reconciliation writes nothing.
func TestUpdateMachineImagesStatus(t *testing.T) {
	t.Parallel()

	s := guide()
	d := s.delegate(t)
	require.NoError(t, d.UpdateMachineImagesStatus(t.Context()))

	written := &extensionsv1alpha1.Worker{}
	require.NoError(t, d.seed.Get(t.Context(), client.ObjectKeyFromObject(s.worker), written))
	require.NotNil(t, written.Status.ProviderStatus)

	later := guide()
	later.worker = written
	later.profile.MachineImages = nil
	require.Equal(t, "https://images.example.com/bionic.img", later.specs(t)[0].RootVolume.Source.HTTP.URL)

	again := later.delegate(t)
	before := written.ResourceVersion
	require.NoError(t, again.UpdateMachineImagesStatus(t.Context()))
	require.Equal(t, before, again.worker.ResourceVersion)
}

// TestUpdateMachineImagesStatus_NotMigratable reports pools that cannot be live-migrated, with the fields of the Shoot.
func TestUpdateMachineImagesStatus_NotMigratable(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		pod    *api.PodNetwork
		config string
		want   []string
	}{
		"bridge":           {want: []string{"spec.provider.infrastructureConfig.networks connects the machine to the pod network by a bridge; set networks.pod.binding of the InfrastructureConfig to passt"}},
		"migrating bridge": {pod: &api.PodNetwork{AllowBridgeLiveMigration: true}},
		"passt":            {pod: &api.PodNetwork{Binding: api.BindingPasst}},
		"plugin":           {pod: &api.PodNetwork{Binding: "p"}, want: []string{"spec.provider.infrastructureConfig.networks.pod.binding is a plugin, and KubeVirt migrates machines with it only if"}},
		"another reason": {
			pod:    &api.PodNetwork{Binding: api.BindingPasst},
			config: "virtualMachineTemplate: {spec: {template: {spec: {domain: {features: {hypervPassthrough: {enabled: true}}}}}}}",
			want:   []string{"spec.provider.workers[0].providerConfig.virtualMachineTemplate.spec.template.spec.domain.features.hypervPassthrough binds the guest to its host"},
		},
	} {
		s := guide()
		s.status.PodNetwork = tc.pod
		s.config = tc.config

		d := s.delegate(t)
		require.NoError(t, d.UpdateMachineImagesStatus(t.Context()), name)
		require.Len(t, d.status.NotMigratable, len(tc.want), name)

		for i, reason := range tc.want {
			require.Equal(t, "cpu-worker", d.status.NotMigratable[i].Name, name)
			require.Contains(t, d.status.NotMigratable[i].Reason, reason, name)
		}
	}
}

// TestUpdateMachineImagesStatus_Changed writes pools that can be live-migrated now, although the images are the same.
func TestUpdateMachineImagesStatus_Changed(t *testing.T) {
	t.Parallel()

	s := guide()
	require.NoError(t, s.delegate(t).UpdateMachineImagesStatus(t.Context()))

	d := s.delegate(t)
	d.status.NotMigratable = nil
	before := d.worker.ResourceVersion
	require.NoError(t, d.UpdateMachineImagesStatus(t.Context()))
	require.NotEqual(t, before, d.worker.ResourceVersion)
}

// TestEvictionStrategy gives new machines the strategy that their account and their volumes allow. It replaces no machine.
func TestEvictionStrategy(t *testing.T) {
	t.Parallel()

	own := "virtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: None}}}}"

	for name, tc := range map[string]struct {
		reason, config     string
		evacuation, denied bool
		exposed            bool
		want               kubevirtv1.EvictionStrategy
	}{
		"NoEvacuation": {reason: "the driver chooses it", exposed: true},
		"Evacuation":   {reason: "the driver chooses it", evacuation: true},
		"Volumes":      {reason: "volumes of pods can prevent migrations later", evacuation: true, exposed: true, want: kubevirtv1.EvictionStrategyExternal},
		"Denied":       {reason: "the driver cannot act", evacuation: true, denied: true, exposed: true, want: kubevirtv1.EvictionStrategyLiveMigrateIfPossible},
		"Own":          {reason: "the Shoot has its own", config: own, evacuation: true, denied: true, want: kubevirtv1.EvictionStrategyNone},
	} {
		s := guide()
		s.config = tc.config
		s.profile.VolumeClasses = nil

		if tc.exposed {
			s.profile.VolumeClasses = []api.VolumeClass{{Name: "nvme", ExposeAs: "fast"}}
		}

		plain := s.delegate(t)
		s.status.Evacuation = tc.evacuation
		s.status.EvacuationDenied = tc.denied

		var strategy kubevirtv1.EvictionStrategy
		if template := s.specs(t)[0].VirtualMachineTemplate; template != nil {
			strategy = ptr.Deref(template.Spec.Template.Spec.EvictionStrategy, "")
		}

		require.Equal(t, tc.want, strategy, "%s: %s", name, tc.reason)

		before, err := plain.GenerateMachineDeployments(t.Context())
		require.NoError(t, err)

		after, err := s.delegate(t).GenerateMachineDeployments(t.Context())
		require.NoError(t, err)
		require.Equal(t, before[0].ClassName, after[0].ClassName, name)
	}
}
