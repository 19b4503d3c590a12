// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

func validSpec() *v1alpha1.ProviderSpec {
	return &v1alpha1.ProviderSpec{
		Region: "eu",
		Zone:   "eu-1",
		Tags:   map[string]string{v1alpha1.TagCluster: "shoot--p--s", v1alpha1.TagRole: "node"},
		Memory: &kubevirtv1.Memory{Guest: ptr.To(resource.MustParse("1Gi"))},
		RootVolume: v1alpha1.RootVolume{DataVolume: v1alpha1.DataVolume{DataVolumeSpec: cdiv1beta1.DataVolumeSpec{
			Source:  &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image", Namespace: "images"}},
			Storage: &cdiv1beta1.StorageSpec{},
		}}},
	}
}

func TestValidateProviderSpec(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(*v1alpha1.ProviderSpec)
		want   []string
	}{
		"Valid": {reason: "the base of all cases is valid", change: func(*v1alpha1.ProviderSpec) {}},
		"DefaultTopology": {
			reason: "default selects nodes without the label",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Region = v1alpha1.AnyTopology
				s.Zone = v1alpha1.AnyTopology
			},
		},
		"OwnTypeMeta": {
			reason: "apiVersion and kind are optional",
			change: func(s *v1alpha1.ProviderSpec) {
				s.APIVersion = v1alpha1.APIVersion
				s.Kind = v1alpha1.Kind
			},
		},
		"ForeignTypeMeta": {
			reason: "another driver's spec is refused",
			change: func(s *v1alpha1.ProviderSpec) {
				s.APIVersion = "aws/v1"
				s.Kind = "MachineConfig"
			},
			want: []string{"providerSpec.apiVersion", "providerSpec.kind"},
		},
		"EverythingMissing": {
			reason: "all errors are reported at once",
			change: func(s *v1alpha1.ProviderSpec) { *s = v1alpha1.ProviderSpec{} },
			want: []string{
				"providerSpec.region", "providerSpec.zone",
				"providerSpec.tags[mcm.gardener.cloud/cluster]", "providerSpec.tags[mcm.gardener.cloud/role]",
				"providerSpec.memory.guest", "providerSpec.rootVolume.source", "providerSpec.rootVolume.storage",
			},
		},
		"ZoneNoLabel": {
			reason: "a zone is a label value",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Zone = "zone a"
			},
			want: []string{"providerSpec.zone"},
		},
		"TagNoLabel": {
			reason: "tags become labels",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Tags["x"] = "a,"
			},
			want: []string{"providerSpec.tags"},
		},
		"ReservedTag": {
			reason: "a tag must not override the driver's labels",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Tags["kubevirt.machine.gardener.cloud/machine"] = "other"
			},
			want: []string{"providerSpec.tags[kubevirt.machine.gardener.cloud/machine]"},
		},
		"MemoryByRequest": {
			reason: "the predecessor's specs have only requests",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Memory = nil
				s.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
		},
		"MemoryWithoutUnit": {
			reason: "KubeVirt starts a guest with eight bytes",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Memory.Guest = ptr.To(resource.MustParse("8"))
			},
			want: []string{"providerSpec.memory.guest"},
		},
		"MemoryByHugepages": {
			reason: "with hugepages alone, KubeVirt gives the guest one page",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Memory = &kubevirtv1.Memory{Hugepages: &kubevirtv1.Hugepages{PageSize: "2Mi"}}
			},
			want: []string{"providerSpec.memory.guest"},
		},
		"BothSources": {
			reason: "the machine boots from one source",
			change: func(s *v1alpha1.ProviderSpec) {
				s.RootVolume.SourceRef = &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "x"}
			},
			want: []string{"providerSpec.rootVolume.sourceRef"},
		},
		"EmptySource": {
			reason: "an empty source is invalid",
			change: func(s *v1alpha1.ProviderSpec) {
				s.RootVolume.Source = &cdiv1beta1.DataVolumeSource{}
			},
			want: []string{"providerSpec.rootVolume.source"},
		},
		"PVCAndStorage": {
			reason: "CDI accepts only one of them",
			change: func(s *v1alpha1.ProviderSpec) {
				s.RootVolume.PVC = &corev1.PersistentVolumeClaimSpec{}
			},
			want: []string{"providerSpec.rootVolume.pvc"},
		},
		"AdditionalVolumes": {
			reason: "each kind is valid",
			change: func(s *v1alpha1.ProviderSpec) {
				s.AdditionalVolumes = []v1alpha1.AdditionalVolume{
					{
						Name: "data",
						DataVolume: &v1alpha1.DataVolume{DataVolumeSpec: cdiv1beta1.DataVolumeSpec{
							Source: &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}},
							Storage: &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
								Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
							}},
						}},
					},
					{
						Name: "shared",
						VolumeSource: &v1alpha1.VolumeSource{PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{
							PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"},
						}},
					},
					{
						Name: "config",
						VolumeSource: &v1alpha1.VolumeSource{ConfigMap: &kubevirtv1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
						}},
					},
					{Name: "keys", VolumeSource: &v1alpha1.VolumeSource{Secret: &kubevirtv1.SecretVolumeSource{SecretName: "keys"}}},
				}
				s.Devices = &v1alpha1.Devices{Disks: []kubevirtv1.Disk{{Name: "root-disk"}, {Name: "data"}}}
			},
		},
		"VolumeNames": {
			reason: "they become names of disks, volumes and DataVolumes",
			change: func(s *v1alpha1.ProviderSpec) {
				source := &v1alpha1.VolumeSource{Secret: &kubevirtv1.SecretVolumeSource{SecretName: "keys"}}
				s.AdditionalVolumes = []v1alpha1.AdditionalVolume{
					{Name: "root-disk", VolumeSource: source},
					{Name: "cloudinit", VolumeSource: source},
					{Name: "a", VolumeSource: source},
					{Name: "a", VolumeSource: source},
					{Name: "B", VolumeSource: source},
					{VolumeSource: source},
					{Name: strings.Repeat("c", 58), VolumeSource: source},
				}
			},
			want: []string{
				"providerSpec.additionalVolumes[0].name", "providerSpec.additionalVolumes[1].name", "providerSpec.additionalVolumes[3].name",
				"providerSpec.additionalVolumes[4].name", "providerSpec.additionalVolumes[5].name", "providerSpec.additionalVolumes[6].name",
			},
		},
		"VolumeSources": {
			reason: "a volume has one source",
			change: func(s *v1alpha1.ProviderSpec) {
				s.AdditionalVolumes = []v1alpha1.AdditionalVolume{
					{Name: "none"},
					{Name: "empty", VolumeSource: &v1alpha1.VolumeSource{}},
					{Name: "both", VolumeSource: &v1alpha1.VolumeSource{}, DataVolume: &v1alpha1.DataVolume{}},
					{
						Name: "two",
						VolumeSource: &v1alpha1.VolumeSource{
							Secret:    &kubevirtv1.SecretVolumeSource{},
							ConfigMap: &kubevirtv1.ConfigMapVolumeSource{},
						},
					},
					{Name: "bare", DataVolume: &v1alpha1.DataVolume{}},
				}
			},
			want: []string{
				"providerSpec.additionalVolumes[0].volumeSource", "providerSpec.additionalVolumes[1].volumeSource",
				"providerSpec.additionalVolumes[2].volumeSource", "providerSpec.additionalVolumes[3].volumeSource",
				"providerSpec.additionalVolumes[4].dataVolume.source", "providerSpec.additionalVolumes[4].dataVolume.storage",
			},
		},
		"DiskNames": {
			reason: "a disk belongs to a volume",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Devices = &v1alpha1.Devices{Disks: []kubevirtv1.Disk{{Name: "root-disk"}, {Name: "root-disk"}, {Name: "other"}, {Name: "cloudinit"}, {}}}
			},
			want: []string{
				"providerSpec.devices.disks[1].name", "providerSpec.devices.disks[2].name", "providerSpec.devices.disks[3].name",
				"providerSpec.devices.disks[4].name",
			},
		},
		"TwoDefaults": {
			reason: "a machine has one primary network",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Networks = []v1alpha1.Network{{Name: "a", Default: true}, {Name: "b", Default: true}}
			},
			want: []string{"providerSpec.networks[1]"},
		},
		"NetworkNames": {
			reason: "a network must have a valid name",
			change: func(s *v1alpha1.ProviderSpec) {
				s.Networks = []v1alpha1.Network{{Name: "a"}, {Name: "b/a"}, {}, {Name: "a/b/c"}, {Name: "A"}}
			},
			want: []string{"providerSpec.networks[2].name", "providerSpec.networks[3].name", "providerSpec.networks[4].name"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := validSpec()
			tc.change(spec)

			var got []string
			for _, err := range validation.ValidateProviderSpec(spec, validation.Options{Template: validation.TemplateSafe}) {
				got = append(got, err.Field)
				require.NotEmpty(t, err.Detail, "every error has a remedy")
			}

			require.ElementsMatch(t, tc.want, got, tc.reason)
		})
	}
}
