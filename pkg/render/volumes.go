// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// disks returns one disk per volume: the configured one, or a virtio disk by default.
func disks(spec *v1alpha1.ProviderSpec) []kubevirtv1.Disk {
	names := []string{v1alpha1.RootDisk}
	for _, volume := range spec.AdditionalVolumes {
		names = append(names, volume.Name)
	}

	list := make([]kubevirtv1.Disk, 0, len(names)+1)
	for _, name := range names {
		list = append(list, disk(spec.Devices, name))
	}

	return append(list, virtioDisk(v1alpha1.CloudInitVolume))
}

func disk(devices *v1alpha1.Devices, name string) kubevirtv1.Disk {
	if devices != nil {
		for i := range devices.Disks {
			if devices.Disks[i].Name == name {
				return *devices.Disks[i].DeepCopy()
			}
		}
	}

	return virtioDisk(name)
}

func virtioDisk(name string) kubevirtv1.Disk {
	return kubevirtv1.Disk{
		Name:       name,
		DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}},
	}
}

func volumes(in *spi.CreateMachineInput) []kubevirtv1.Volume {
	list := []kubevirtv1.Volume{rootVolume(in)}

	for _, volume := range in.Spec.AdditionalVolumes {
		if volume.DataVolume != nil {
			list = append(list, dataVolume(volume.Name, DataVolumeName(in.Name, in.UID, volume.Name)))
		} else {
			list = append(list, existingVolume(volume))
		}
	}

	return append(list, cloudInitVolume(in))
}

func rootVolume(in *spi.CreateMachineInput) kubevirtv1.Volume {
	if disk := in.Spec.RootVolume.ContainerDisk; disk != nil {
		return kubevirtv1.Volume{Name: v1alpha1.RootDisk, VolumeSource: kubevirtv1.VolumeSource{ContainerDisk: disk.DeepCopy()}}
	}

	return dataVolume(v1alpha1.RootDisk, DataVolumeName(in.Name, in.UID, v1alpha1.RootDisk))
}

func dataVolume(name, source string) kubevirtv1.Volume {
	return kubevirtv1.Volume{
		Name:         name,
		VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: source}},
	}
}

func existingVolume(volume v1alpha1.AdditionalVolume) kubevirtv1.Volume {
	source := volume.VolumeSource.DeepCopy()

	return kubevirtv1.Volume{
		Name: volume.Name,
		VolumeSource: kubevirtv1.VolumeSource{
			PersistentVolumeClaim: source.PersistentVolumeClaim,
			ConfigMap:             source.ConfigMap,
			Secret:                source.Secret,
		},
	}
}

func dataVolumeTemplates(in *spi.CreateMachineInput) []kubevirtv1.DataVolumeTemplateSpec {
	var list []kubevirtv1.DataVolumeTemplateSpec

	if in.Spec.RootVolume.ContainerDisk == nil {
		list = append(list, dataVolumeTemplate(in, v1alpha1.RootDisk, &in.Spec.RootVolume.DataVolume))
	}

	for _, volume := range in.Spec.AdditionalVolumes {
		if volume.DataVolume != nil {
			list = append(list, dataVolumeTemplate(in, volume.Name, volume.DataVolume))
		}
	}

	return list
}

func dataVolumeTemplate(in *spi.CreateMachineInput, volume string, from *v1alpha1.DataVolume) kubevirtv1.DataVolumeTemplateSpec {
	return kubevirtv1.DataVolumeTemplateSpec{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1beta1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        DataVolumeName(in.Name, in.UID, volume),
			Labels:      objectLabels(in),
			Annotations: maps.Clone(from.Annotations),
		},
		Spec: *from.DataVolumeSpec.DeepCopy(),
	}
}
