// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// ValidateHardware returns the errors of the devices, the instance type and the preference of a machine type.
func ValidateHardware(t *api.MachineType, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if m := t.Instancetype; m != nil {
		errs = append(errs, validateMatcher(m.Name, m.RevisionName, m.InferFromVolume, path.Child("instancetype"))...)
	}

	if m := t.Preference; m != nil {
		errs = append(errs, validateMatcher(m.Name, m.RevisionName, m.InferFromVolume, path.Child("preference"))...)
	}

	return append(errs, validateDevices(t, path)...)
}

// validateMatcher requires the name of an instance type or a preference. The labels of a volume come from its
// image, which a project can choose, and a revision may be of any instance type: with them, the author of an
// image would choose the hardware.
func validateMatcher(name, revision, volume string, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if volume != "" {
		errs = append(errs, field.Forbidden(path.Child("inferFromVolume"), "set the name instead: the image of a worker must not choose it"))
	}

	if revision != "" {
		errs = append(errs, field.Forbidden(path.Child("revisionName"), "remove it: KubeVirt sets it in each virtual machine"))
	}

	if name == "" && volume == "" {
		errs = append(errs, field.Required(path.Child("name"), "name an object of the provider cluster"))
	}

	return errs
}

func validateDevices(t *api.MachineType, path *field.Path) field.ErrorList {
	d := &deviceRules{claims: t.ResourceClaims, used: sets.New[string]()}

	for i, gpu := range t.GPUs {
		d.validate(gpu.DeviceName, gpu.ClaimRequest, path.Child("gpus").Index(i))
	}

	for i, device := range t.HostDevices {
		d.validate(device.DeviceName, device.ClaimRequest, path.Child("hostDevices").Index(i))
	}

	return append(d.errs, d.validateClaims(path.Child("resourceClaims"))...)
}

type deviceRules struct {
	claims []api.ResourceClaim
	// used are the names of claims to which devices refer.
	used sets.Set[string]
	errs field.ErrorList
}

// validate validates a device, which comes either from a device plugin or from a claim.
func (d *deviceRules) validate(deviceName string, request *kubevirtv1.ClaimRequest, path *field.Path) {
	const or = "set either deviceName, or claimName and requestName of one of the resourceClaims"

	claim := ptr.Deref(request, kubevirtv1.ClaimRequest{})
	claimed := claim != (kubevirtv1.ClaimRequest{})
	d.used.Insert(claim.ClaimName)

	switch {
	case deviceName == "" && !claimed:
		d.errs = append(d.errs, field.Required(path.Child("deviceName"), or))
	case deviceName != "" && claimed:
		d.errs = append(d.errs, field.Forbidden(path.Child("deviceName"), "the device comes from a claim; "+or))
	case claimed && claim.RequestName == "":
		d.errs = append(d.errs, field.Required(path.Child("requestName"), "name the request of the claim that the device fulfils"))
	}

	if claimed && !slices.ContainsFunc(d.claims, func(c api.ResourceClaim) bool { return c.Name == claim.ClaimName }) {
		d.errs = append(d.errs, field.Invalid(path.Child("claimName"), claim.ClaimName, "resourceClaims has no claim with this name; add it there"))
	}
}

func (d *deviceRules) validateClaims(path *field.Path) field.ErrorList {
	var errs field.ErrorList

	names := sets.New[string]()

	for i, c := range d.claims {
		path := path.Index(i)

		switch {
		case c.Name == "":
			errs = append(errs, field.Required(path.Child("name"), "name the claim"))
		case names.Has(c.Name):
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
		case !d.used.Has(c.Name):
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, "none of the gpus and hostDevices uses the claim; set their claimName, or remove the claim"))
		}

		if c.ResourceClaimTemplateName == "" {
			errs = append(errs, field.Required(path.Child("resourceClaimTemplateName"), "name a ResourceClaimTemplate in the namespace of the machines; they cannot share a ResourceClaim"))
		}

		names.Insert(c.Name)
	}

	return errs
}
