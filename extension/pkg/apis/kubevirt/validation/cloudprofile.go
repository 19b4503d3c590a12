// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

var (
	reclaimPolicies    = []corev1.PersistentVolumeReclaimPolicy{"", corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}
	volumeBindingModes = []storagev1.VolumeBindingMode{"", storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
)

// ValidateVolumeClasses returns the errors of CloudProfileConfig.volumeClasses.
func ValidateVolumeClasses(classes []api.VolumeClass, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	exposed := sets.New[string]()
	defaults := 0

	for i, c := range classes {
		path := path.Index(i)
		errs = append(errs, validateObjectName(c.Name, path.Child("name"))...)
		errs = append(errs, validateExposedClass(c, path)...)

		if c.ExposeAs != "" && exposed.Has(c.ExposeAs) {
			errs = append(errs, field.Duplicate(path.Child("exposeAs"), c.ExposeAs))
		}

		if c.Default {
			if defaults++; defaults > 1 {
				errs = append(errs, field.Forbidden(path.Child("default"), "another class is already the default; set default for one class only"))
			}
		}

		exposed.Insert(c.ExposeAs)
	}

	return errs
}

// validateExposedClass returns the errors of the fields of the StorageClass in the shoots.
func validateExposedClass(c api.VolumeClass, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if c.ExposeAs != "" {
		errs = append(errs, validateObjectName(c.ExposeAs, path.Child("exposeAs"))...)
	} else if c.Default || c.ReclaimPolicy != "" || c.VolumeBindingMode != "" || len(c.Zones) > 0 || c.SnapshotClass != "" {
		errs = append(errs, field.Required(path.Child("exposeAs"), "set the name of the StorageClass in the shoots, or remove its other fields"))
	}

	if c.SnapshotClass != "" {
		errs = append(errs, validateObjectName(c.SnapshotClass, path.Child("snapshotClass"))...)
	}

	errs = append(errs, validateZones(c.Zones, path.Child("zones"))...)

	if !slices.Contains(reclaimPolicies, c.ReclaimPolicy) {
		errs = append(errs, field.NotSupported(path.Child("reclaimPolicy"), c.ReclaimPolicy, reclaimPolicies[1:]))
	}

	if !slices.Contains(volumeBindingModes, c.VolumeBindingMode) {
		errs = append(errs, field.NotSupported(path.Child("volumeBindingMode"), c.VolumeBindingMode, volumeBindingModes[1:]))
	}

	return errs
}

// validateZones returns the errors of the zones of a class. Without this validation, the API server would
// reject a StorageClass with invalid zones only after its predecessor was deleted.
func validateZones(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	known := sets.New[string]()

	for i, name := range names {
		path := path.Index(i)

		switch {
		case name == "":
			errs = append(errs, field.Required(path, ""))
		case name == providerspec.AnyTopology:
			errs = append(errs, field.Invalid(path, name, "Nodes in this zone have no zone label; remove the field"))
		case known.Has(name):
			errs = append(errs, field.Duplicate(path, name))
		}

		for _, msg := range validation.IsValidLabelValue(name) {
			errs = append(errs, field.Invalid(path, name, msg))
		}

		known.Insert(name)
	}

	return errs
}

// ValidateOfferedBastion returns the errors of CloudProfileConfig.bastion.
func ValidateOfferedBastion(b *api.OfferedBastion, path *field.Path) field.ErrorList {
	if b == nil || b.ContainerDisk.Image != "" {
		return nil
	}

	return field.ErrorList{field.Required(path.Child("containerDisk", "image"), "")}
}

// ValidateStorageClass returns the errors of the name of a storage class.
func ValidateStorageClass(name string, path *field.Path) field.ErrorList {
	return validateObjectName(name, path)
}

// validateObjectName returns the errors of the name of a cluster-wide object.
func validateObjectName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}

	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}

	return errs
}
