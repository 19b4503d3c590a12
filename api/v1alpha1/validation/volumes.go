package validation

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// maxVolumeName is what KubeVirt leaves of a DNS label: it appends up to six characters to volume names in pods
// (pkg/virt-controller/services/rendervolumes.go).
const maxVolumeName = 57

func additionalVolumes(list []v1alpha1.AdditionalVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	seen := map[string]bool{v1alpha1.RootDisk: true, v1alpha1.CloudInitVolume: true}

	for i, volume := range list {
		entry := path.Index(i)
		errs = append(errs, volumeName(volume.Name, entry.Child("name"))...)

		if seen[volume.Name] {
			errs = append(errs, field.Forbidden(entry.Child("name"), "volume "+volume.Name+" exists already; use another name"))
		}

		seen[volume.Name] = true

		switch {
		case volume.DataVolume != nil && volume.VolumeSource != nil:
			errs = append(errs, field.Forbidden(entry.Child("volumeSource"), "set either dataVolume or volumeSource"))
		case volume.DataVolume != nil:
			errs = append(errs, dataVolume(volume.DataVolume, entry.Child("dataVolume"))...)
		default:
			errs = append(errs, volumeSource(volume.VolumeSource, entry.Child("volumeSource"))...)
		}
	}

	return errs
}

func volumeName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name the volume, for example data")}
	}

	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}

	if len(name) > maxVolumeName {
		errs = append(errs, field.Forbidden(path, "use at most 57 characters: KubeVirt appends to it"))
	}

	return errs
}

func volumeSource(source *v1alpha1.VolumeSource, path *field.Path) field.ErrorList {
	given := 0

	if source != nil {
		for _, is := range []bool{source.PersistentVolumeClaim != nil, source.ConfigMap != nil, source.Secret != nil} {
			if is {
				given++
			}
		}
	}

	switch given {
	case 0:
		return field.ErrorList{field.Required(path, "set a dataVolume, or one of persistentVolumeClaim, configMap and secret")}
	case 1:
		return nil
	default:
		return field.ErrorList{field.Forbidden(path, "set one of persistentVolumeClaim, configMap and secret")}
	}
}

// disks judges the references of disks to volumes. The disks themselves are KubeVirt's to judge.
func disks(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	if spec.Devices == nil {
		return nil
	}

	var errs field.ErrorList

	left := map[string]bool{v1alpha1.RootDisk: true}
	for _, volume := range spec.AdditionalVolumes {
		left[volume.Name] = true
	}

	for i := range spec.Devices.Disks {
		name := spec.Devices.Disks[i].Name
		if !left[name] {
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				"use each of root-disk and the names of additionalVolumes at most once; "+name+" is none, or one that was used"))
		}

		delete(left, name)
	}

	return errs
}
