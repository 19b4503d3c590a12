// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// maxVolumeName is the maximum length of a volume name: in pods, KubeVirt appends up to six
// characters to it (pkg/virt-controller/services/rendervolumes.go), which must leave a DNS label.
const maxVolumeName = 57

// validateRootVolume validates the disk that the machine boots from: a container disk, or a DataVolume,
// which may be cloned from a golden image.
func validateRootVolume(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	if spec.RootVolume.ContainerDisk != nil {
		return validateContainerDisk(spec.RootVolume, path)
	}

	volume := &spec.RootVolume.DataVolume
	blank := volume.Source != nil && volume.Source.Blank != nil

	return slices.Concat(
		validateDataVolume(volume, path),
		forbid(path.Child("source", "blank"), blank,
			"a machine cannot boot from an empty disk; use a source with an operating system, for example http, registry or pvc"),
		validateImport(volume, spec.UsesGoldenImage(), path),
	)
}

func validateContainerDisk(volume v1alpha1.RootVolume, path *field.Path) field.ErrorList {
	path = path.Child("containerDisk")
	image := volume.ContainerDisk.Image
	scheme, _, hasScheme := strings.Cut(image, "://")

	return slices.Concat(
		forbid(path, !equality.Semantic.DeepEqual(volume.DataVolume, v1alpha1.DataVolume{}),
			"set either containerDisk or the fields of a DataVolume (source, storage, …)"),
		require(path.Child("image"), image, "name the image of the container disk"),
		refuse(path.Child("image"), strings.TrimSpace(image) != image, image, "must not begin or end with a space"),
		refuse(path.Child("image"), hasScheme, image, "must not have a scheme; remove "+scheme+"://"),
		validateOptionalName(volume.ContainerDisk.ImagePullSecret, path.Child("imagePullSecret")),
	)
}

func validateGoldenImage(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.GoldenImage == nil:
		return nil
	case spec.DisablePreAllocatedDataVolumes:
		return field.ErrorList{field.Forbidden(path, "there is none with disablePreAllocatedDataVolumes; remove one of them")}
	case !spec.UsesGoldenImage():
		return field.ErrorList{field.Forbidden(path, "the root volume is not imported, so it has none; remove it")}
	}

	size := amount{spec.GoldenImage.Size, path.Child("size")}
	rootSize := amount{Quantity: spec.RootVolume.Size()}

	return append(
		refuse(size.path, size.Quantity != nil && size.Sign() <= 0, size.String(), "must be greater than zero"),
		refuse(size.path, rootSize.less(size), size.String(),
			"must not exceed the root volume's size ("+rootSize.String()+"); a clone cannot be smaller than its source")...)
}

// checksums are the formats of CDI's checksums (pkg/util/checksum).
var checksums = regexp.MustCompile(`^(?i:md5:[0-9a-f]{32}|sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// validateImport validates the fields of CDI that only golden images support: up to version 1.9, KubeVirt
// does not know them in the DataVolumes of a VirtualMachine.
func validateImport(volume *v1alpha1.DataVolume, golden bool, path *field.Path) field.ErrorList {
	const remedy = "only golden images support it: KubeVirt up to 1.9 does not know it in a machine's own DataVolumes; remove it"

	source := ptr.Deref(volume.Source, cdiv1beta1.DataVolumeSource{})
	http := ptr.Deref(source.HTTP, cdiv1beta1.DataVolumeSourceHTTP{})
	vddk := ptr.Deref(source.VDDK, cdiv1beta1.DataVolumeSourceVDDK{})
	at := path.Child("source", "http")

	if golden {
		return refuse(at.Child("checksum"), http.Checksum != "" && !checksums.MatchString(http.Checksum), http.Checksum,
			"must be md5, sha1, sha256 or sha512, a colon, and the checksum in hexadecimal digits")
	}

	return slices.Concat(
		forbid(at.Child("checksum"), http.Checksum != "", remedy),
		forbid(at.Child("insecureSkipVerify"), http.InsecureSkipVerify != nil, remedy),
		forbid(path.Child("source", "vddk", "certConfigMap"), vddk.CertConfigMap != "", remedy),
		forbid(path.Child("serviceAccountName"), volume.ServiceAccountName != "", remedy),
	)
}

// reservedVolumes are the names of the driver's volumes, and of KubeVirt's own volumes in the pod
// of a virtual machine (pkg/virt-controller/services/rendervolumes.go). A pod with two volumes of
// the same name is never created.
var reservedVolumes = []string{
	v1alpha1.RootDisk, v1alpha1.CloudInitVolume, v1alpha1.CloudInitVolume + "-udata", v1alpha1.CloudInitVolume + "-ndata",
	"private", "private-libvirt", "private-libvirt-qemu", "public", "sockets", "ephemeral-disks", "libvirt-runtime", "virt-bin-share-dir",
	"container-disks", "hotplug-disks", "hook-sidecar-sockets", "hugepages", "hugetblfs-dir", "downwardapi", "vhostuser-sockets",
}

func validateAdditionalVolumes(list []v1alpha1.AdditionalVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	names := sets.New(reservedVolumes...)

	for i, volume := range list {
		entry := path.Index(i)
		errs = append(errs, validateVolumeName(volume.Name, entry.Child("name"))...)
		errs = append(errs, forbid(entry.Child("name"), names.Has(volume.Name),
			"volume name "+strconv.Quote(volume.Name)+" is already used by the spec, the driver or KubeVirt; choose another one")...)
		names.Insert(volume.Name)

		switch {
		case volume.DataVolume != nil && volume.VolumeSource != nil:
			errs = append(errs, field.Forbidden(entry.Child("volumeSource"), "set either dataVolume or volumeSource"))
		case volume.DataVolume != nil:
			errs = append(errs, validateDataVolume(volume.DataVolume, entry.Child("dataVolume"))...)
			errs = append(errs, validateImport(volume.DataVolume, false, entry.Child("dataVolume"))...)
		default:
			errs = append(errs, validateVolumeSource(volume.VolumeSource, entry.Child("volumeSource"))...)
		}
	}

	return errs
}

func validateVolumeName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name the volume, for example data")}
	}

	return append(validateSyntax(path, name, validation.IsDNS1123Label),
		forbid(path, len(name) > maxVolumeName, fmt.Sprintf("use at most %d characters, since KubeVirt appends a suffix", maxVolumeName))...)
}

// validateVolumeSource also validates names: with a wrong one, the machine's pod would wait forever.
func validateVolumeSource(source *v1alpha1.VolumeSource, path *field.Path) field.ErrorList {
	var sources []field.ErrorList

	s := ptr.Deref(source, v1alpha1.VolumeSource{})
	if s.PersistentVolumeClaim != nil {
		sources = append(sources, validateObjectName(s.PersistentVolumeClaim.ClaimName, path.Child("persistentVolumeClaim", "claimName")))
	}

	if s.ConfigMap != nil {
		sources = append(sources, validateObjectName(s.ConfigMap.Name, path.Child("configMap", "name")))
	}

	if s.Secret != nil {
		sources = append(sources, validateObjectName(s.Secret.SecretName, path.Child("secret", "secretName")))
	}

	switch len(sources) {
	case 0:
		return field.ErrorList{field.Required(path, "set dataVolume, or one of persistentVolumeClaim, configMap and secret")}
	case 1:
		return sources[0]
	default:
		return field.ErrorList{field.Forbidden(path, "set only one of persistentVolumeClaim, configMap and secret")}
	}
}

// validateDisks validates the names of disks, which refer to volumes. KubeVirt validates the disks
// themselves.
func validateDisks(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	unused := map[string]bool{v1alpha1.RootDisk: true}
	for _, volume := range spec.AdditionalVolumes {
		unused[volume.Name] = true
	}

	for i, disk := range ptr.Deref(spec.Devices, v1alpha1.Devices{}).Disks {
		path := path.Index(i).Child("name")

		switch {
		case disk.Name == "":
			errs = append(errs, field.Required(path, "name the volume of the disk, for example root-disk"))
		case !unused[disk.Name]:
			errs = append(errs, field.Forbidden(path, fmt.Sprintf(
				"there is no volume %q, or it already has a disk; use root-disk or the name of an additional volume", disk.Name)))
		}

		delete(unused, disk.Name)
	}

	return errs
}
