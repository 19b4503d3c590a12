package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// maxVolumeName is what KubeVirt leaves of a DNS label: it appends up to six characters to volume names in pods
// (pkg/virt-controller/services/rendervolumes.go).
const maxVolumeName = 57

// rootVolume judges what the machine boots from: a container disk, or a DataVolume, perhaps cloned from a golden image.
func rootVolume(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	volume := path.Child("rootVolume")
	golden := goldenImage(spec, path.Child("goldenImage"))

	if disk := spec.RootVolume.ContainerDisk; disk != nil {
		return append(golden, containerDisk(spec.RootVolume, volume)...)
	}

	errs := dataVolume(&spec.RootVolume.DataVolume, volume)
	errs = append(errs, bootable(&spec.RootVolume.DataVolume, volume)...)

	if spec.UsesGoldenImage() {
		errs = append(errs, checksum(&spec.RootVolume.DataVolume, volume)...)
	} else {
		errs = append(errs, goldenImageOnly(&spec.RootVolume.DataVolume, volume)...)
	}

	return append(errs, golden...)
}

func containerDisk(volume v1alpha1.RootVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if !equality.Semantic.DeepEqual(volume.DataVolume, v1alpha1.DataVolume{}) {
		errs = append(errs, field.Forbidden(path.Child("containerDisk"), "set either containerDisk, or the fields of a DataVolume (source, storage, …)"))
	}

	switch image := volume.ContainerDisk.Image; {
	case image == "":
		errs = append(errs, field.Required(path.Child("containerDisk", "image"), "name the image of the container disk"))
	case strings.TrimSpace(image) != image:
		errs = append(errs, field.Invalid(path.Child("containerDisk", "image"), image, "must not begin or end with a space"))
	case strings.Contains(image, "://"):
		scheme, _, _ := strings.Cut(image, "://")
		errs = append(errs, field.Invalid(path.Child("containerDisk", "image"), image, "must not have a scheme; remove "+scheme+"://"))
	}

	errs = append(errs, optionalName(volume.ContainerDisk.ImagePullSecret, path.Child("containerDisk", "imagePullSecret"))...)

	return errs
}

func goldenImage(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.GoldenImage == nil:
		return nil
	case spec.DisablePreAllocatedDataVolumes:
		return field.ErrorList{field.Forbidden(path, "there is none with disablePreAllocatedDataVolumes; remove one of them")}
	case !spec.UsesGoldenImage():
		return field.ErrorList{field.Forbidden(path, "the root volume is not imported, so it needs none; remove it")}
	case spec.GoldenImage.Size == nil:
		return nil
	}

	size, given := *spec.GoldenImage.Size, spec.RootVolume.Size()

	switch {
	case size.Sign() <= 0:
		return field.ErrorList{field.Invalid(path.Child("size"), size.String(), "must be greater than zero")}
	case given != nil && size.Cmp(*given) > 0:
		return field.ErrorList{field.Invalid(path.Child("size"), size.String(),
			"must not exceed the root volume's size, "+given.String()+": a clone cannot shrink")}
	}

	return nil
}

// goldenImageOnly refuses what KubeVirt drops from a virtual machine's DataVolumes: up to 1.9 its API does not have these fields.
func goldenImageOnly(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	const remedy = "it works for golden images only, as KubeVirt drops it from a machine's own DataVolumes; remove it"

	if volume.Source == nil || volume.Source.HTTP == nil {
		return nil
	}

	var errs field.ErrorList

	http := path.Child("source", "http")
	if volume.Source.HTTP.Checksum != "" {
		errs = append(errs, field.Forbidden(http.Child("checksum"), remedy))
	}

	if volume.Source.HTTP.InsecureSkipVerify != nil {
		errs = append(errs, field.Forbidden(http.Child("insecureSkipVerify"), remedy))
	}

	return errs
}

// podVolumes are the volumes of KubeVirt's own in the pod of a virtual machine (pkg/virt-controller/services/rendervolumes.go): with
// another one of such a name, the pod is never created.
var podVolumes = []string{
	"private", "private-libvirt", "private-libvirt-qemu", "public", "sockets", "ephemeral-disks", "libvirt-runtime", "virt-bin-share-dir",
	"container-disks", "hotplug-disks", "hook-sidecar-sockets", "hugepages", "hugetblfs-dir", "downwardapi", "vhostuser-sockets",
	v1alpha1.CloudInitVolume + "-udata", v1alpha1.CloudInitVolume + "-ndata",
}

func additionalVolumes(list []v1alpha1.AdditionalVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	seen := map[string]bool{v1alpha1.RootDisk: true, v1alpha1.CloudInitVolume: true}
	for _, name := range podVolumes {
		seen[name] = true
	}

	for i, volume := range list {
		entry := path.Index(i)
		errs = append(errs, volumeName(volume.Name, entry.Child("name"))...)

		if seen[volume.Name] {
			errs = append(errs, field.Forbidden(entry.Child("name"), "there is a volume "+volume.Name+" already, of this spec, the driver or KubeVirt; use another name"))
		}

		seen[volume.Name] = true

		switch {
		case volume.DataVolume != nil && volume.VolumeSource != nil:
			errs = append(errs, field.Forbidden(entry.Child("volumeSource"), "set either dataVolume or volumeSource"))
		case volume.DataVolume != nil:
			errs = append(errs, dataVolume(volume.DataVolume, entry.Child("dataVolume"))...)
			errs = append(errs, goldenImageOnly(volume.DataVolume, entry.Child("dataVolume"))...)
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

// volumeSource checks names because KubeVirt does not: with a wrong one, the machine's pod waits for ever.
func volumeSource(source *v1alpha1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if source != nil {
		if s := source.PersistentVolumeClaim; s != nil {
			errs = append(errs, objectName(s.ClaimName, path.Child("persistentVolumeClaim", "claimName"))...)
		}

		if s := source.ConfigMap; s != nil {
			errs = append(errs, objectName(s.Name, path.Child("configMap", "name"))...)
		}

		if s := source.Secret; s != nil {
			errs = append(errs, objectName(s.SecretName, path.Child("secret", "secretName"))...)
		}
	}

	switch countSources(source) {
	case 0:
		return field.ErrorList{field.Required(path, "set a dataVolume, or one of persistentVolumeClaim, configMap and secret")}
	case 1:
		return errs
	default:
		return field.ErrorList{field.Forbidden(path, "set one of persistentVolumeClaim, configMap and secret")}
	}
}

func countSources(source *v1alpha1.VolumeSource) int {
	count := 0

	if source != nil {
		for _, given := range []bool{source.PersistentVolumeClaim != nil, source.ConfigMap != nil, source.Secret != nil} {
			if given {
				count++
			}
		}
	}

	return count
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

		switch {
		case name == "":
			errs = append(errs, field.Required(path.Index(i).Child("name"), "name the volume that the disk is for, for example root-disk"))
		case !left[name]:
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				fmt.Sprintf("%q is no volume, or has a disk already; disks are named root-disk, or like one of additionalVolumes", name)))
		}

		delete(left, name)
	}

	return errs
}
