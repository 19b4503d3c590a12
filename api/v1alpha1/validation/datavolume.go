// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// validateDataVolume validates a DataVolume by CDI's rules (pkg/apiserver/webhooks/datavolume-validate.go),
// and refuses settings that CDI accepts but never completes. KubeVirt creates the DataVolume after
// it has accepted the machine, so that an error of CDI would not be reported.
func validateDataVolume(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateOrigin(volume, path),
		validateClaim(volume, path),
		validatePopulation(&volume.DataVolumeSpec, path),
		apivalidation.ValidateAnnotations(volume.Annotations, path.Child("annotations")),
		validateVolumeAnnotations(volume.Annotations, path.Child("annotations")),
	)
}

// claimOf returns the PersistentVolumeClaim that CDI creates for a volume, and its field: storage,
// which CDI completes with the storage profile, or pvc, which CDI uses unchanged.
func claimOf(volume *v1alpha1.DataVolume, path *field.Path) (corev1.PersistentVolumeClaimSpec, *field.Path) {
	s := volume.Storage
	if s == nil {
		return ptr.Deref(volume.PVC, corev1.PersistentVolumeClaimSpec{}), path.Child("pvc")
	}

	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      s.AccessModes,
		Selector:         s.Selector,
		Resources:        s.Resources,
		StorageClassName: s.StorageClassName,
		VolumeMode:       s.VolumeMode,
		VolumeName:       s.VolumeName,
		DataSource:       s.DataSource,
		DataSourceRef:    s.DataSourceRef,
	}, path.Child("storage")
}

func validateClaim(volume *v1alpha1.DataVolume, path *field.Path) field.ErrorList {
	if volume.PVC == nil && volume.Storage == nil {
		return field.ErrorList{field.Required(path.Child("storage"), "set storage (or pvc) with at least a size")}
	}

	if volume.PVC != nil && volume.Storage != nil {
		return field.ErrorList{field.Forbidden(path.Child("pvc"), "set either storage or pvc")}
	}

	c, path := claimOf(volume, path)
	mode := ptr.Deref(c.VolumeMode, corev1.PersistentVolumeFilesystem)

	return slices.Concat(
		validateAccessModes(c.AccessModes, volume.PVC != nil, path.Child("accessModes")),
		validateOptionalName(ptr.Deref(c.StorageClassName, ""), path.Child("storageClassName")),
		metav1validation.ValidateLabelSelector(c.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector")),
		validateOneOf(path.Child("volumeMode"), mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem),
		forbid(path.Child("volumeName"), c.VolumeName != "", "all machines of the class would claim the same PersistentVolume; remove it"),
		forbid(path.Child("dataSource"), c.DataSource != nil, setByDriver+"use source or sourceRef of the volume"),
		forbid(path.Child("dataSourceRef"), c.DataSourceRef != nil, setByDriver+"use source or sourceRef of the volume"),
		validateSize(c.Resources.Requests, volume.PVC != nil || !cloning(volume), path.Child("resources", "requests").Key(string(corev1.ResourceStorage))),
	)
}

// cloning reports whether a volume may take its size from its source.
func cloning(volume *v1alpha1.DataVolume) bool {
	s := ptr.Deref(volume.Source, cdiv1beta1.DataVolumeSource{})

	return s == (cdiv1beta1.DataVolumeSource{}) || s.PVC != nil || s.Snapshot != nil
}

// validateAccessModes validates the access modes of a claim. CDI requires exactly one in a pvc.
func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, pvc bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, mode := range modes {
		errs = append(errs, validateOneOf(path.Index(i), mode,
			corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOncePod)...)
	}

	if pvc && len(modes) > 1 {
		errs = append(errs, field.TooMany(path, len(modes), 1))
	}

	return slices.Concat(
		errs,
		require(path, !pvc || len(modes) > 0, "set one access mode, for example ReadWriteOnce, or use storage instead of pvc"),
		forbid(path, len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod), "ReadWriteOncePod cannot be combined with other access modes"),
	)
}

func validateSize(requests corev1.ResourceList, required bool, path *field.Path) field.ErrorList {
	value, found := requests[corev1.ResourceStorage]
	minimum := resource.NewQuantity(1<<20, resource.BinarySI)

	return append(
		require(path, found || !required, "set the volume's size, for example 20Gi"),
		refuse(path, found && value.Cmp(*minimum) < 0, value.String(), "must be at least "+minimum.String())...)
}

// validatePopulation validates the settings with which CDI's pods fill the volume.
func validatePopulation(spec *cdiv1beta1.DataVolumeSpec, path *field.Path) field.ErrorList {
	return slices.Concat(
		validateOptionalName(spec.PriorityClassName, path.Child("priorityClassName")),
		validateOptionalName(spec.ServiceAccountName, path.Child("serviceAccountName")),
		refuse(path.Child("contentType"), spec.ContentType != "" && spec.ContentType != cdiv1beta1.DataVolumeKubeVirt, spec.ContentType,
			"must be kubevirt; other content cannot be used as a disk"),
		forbid(path.Child("checkpoints"), len(spec.Checkpoints) > 0 || spec.FinalCheckpoint,
			"they are for a multi-stage import, and each machine would wait for the next stage; remove checkpoints and finalCheckpoint"),
	)
}

// validateVolumeAnnotations refuses annotations that CDI copies to the claim, where CDI or the scheduler
// would mistake them for its own.
func validateVolumeAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for _, a := range []struct{ key, effect string }{
		{"cdi.kubevirt.io/storage.bind.immediate.requested", "the disk could be created in another zone than the machine"},
		{"volume.kubernetes.io/selected-node", "the disk could be created in another zone than the machine"},
		{"cdi.kubevirt.io/storage.prePopulated", "CDI would wait for an existing disk"},
		{"cdi.kubevirt.io/storage.checkStaticVolume", "CDI would look for an existing disk"},
		{"cdi.kubevirt.io/storage.populatedFor", "CDI would consider the disk populated"},
		{"cdi.kubevirt.io/storage.pod.phase", "CDI would consider the disk populated"},
		{"cdi.kubevirt.io/externalPopulation", "CDI would not populate the disk"},
		{"cdi.kubevirt.io/storage.populator.kind", "CDI would consider the disk temporary"},
		{"cdi.kubevirt.io/storage.upload.target", "CDI would wait for an upload"},
		{"k8s.io/CloneRequest", "CDI would clone another disk"},
		{"k8s.io/CloneOf", "CDI would consider the disk cloned"},
		{"pv.kubernetes.io/bind-completed", "Kubernetes would consider the disk lost"},
	} {
		_, set := annotations[a.key]
		errs = append(errs, forbid(path.Key(a.key), set, a.effect+"; remove it")...)
	}

	return errs
}
