// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	instancetypeapi "kubevirt.io/api/instancetype"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// namespacedCloudProfileValidator validates the providerConfig of a NamespacedCloudProfile: the sources of
// the machine images, and the machine types, that a project adds.
type namespacedCloudProfileValidator struct {
	garden client.Reader
}

var _ extensionswebhook.Validator = (*namespacedCloudProfileValidator)(nil)

// Validate implements extensionswebhook.Validator. In an update, it reports only errors that the change
// introduces.
func (v *namespacedCloudProfileValidator) Validate(ctx context.Context, newObj, oldObj client.Object) error {
	profile, ok := newObj.(*gardencorev1beta1.NamespacedCloudProfile)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	oldProfile, _ := oldObj.(*gardencorev1beta1.NamespacedCloudProfile)
	if profile.DeletionTimestamp != nil || oldProfile != nil && equality.Semantic.DeepEqual(profile.Spec, oldProfile.Spec) {
		return nil
	}

	parent := &gardencorev1beta1.CloudProfile{}
	if err := v.garden.Get(ctx, client.ObjectKey{Name: profile.Spec.Parent.Name}, parent); err != nil {
		return fmt.Errorf("spec.parent: get CloudProfile %s: %w", profile.Spec.Parent.Name, err)
	}

	errs := validateNamespacedCloudProfile(&profile.Spec, parent)
	if oldProfile != nil {
		errs = introduced(errs, validateNamespacedCloudProfile(&oldProfile.Spec, parent))
	}

	return errs.ToAggregate()
}

// validateNamespacedCloudProfile returns the errors of a NamespacedCloudProfile.
func validateNamespacedCloudProfile(profile *gardencorev1beta1.NamespacedCloudProfileSpec, parent *gardencorev1beta1.CloudProfile) field.ErrorList {
	config := &api.CloudProfileConfig{}
	inherited := &api.CloudProfileConfig{}
	errs := append(api.Decode(profile.ProviderConfig, configPath(), config), validateOperators(config)...)
	_ = api.Decode(parent.Spec.ProviderConfig, nil, inherited) // The validator of the CloudProfile reports errors.

	// gardener-controller-manager converts the project's entries to the format of the CloudProfile.
	spec := gardenerutils.TransformSpecToParentFormat(*profile.DeepCopy(), parent.Spec.MachineCapabilities)
	images := &imageRules{definitions: parent.Spec.MachineCapabilities}

	errs = append(errs, images.validateEntries(config.MachineImages)...)
	errs = append(errs, images.validateInherited(config.MachineImages, inherited.MachineImages, parent.Name)...)
	errs = append(errs, images.validateSources(config.MachineImages)...)
	errs = append(errs, images.validateComplete(added(spec.MachineImages, parent.Spec.MachineImages), config.MachineImages)...)
	errs = append(errs, validateInheritedTypes(config.MachineTypes, parent, inherited.MachineTypes)...)
	errs = append(errs, validateMachineTypes(spec.MachineTypes, config.MachineTypes)...)

	return append(errs, validateVolumeTypes(spec.VolumeTypes)...)
}

// added returns the versions that the parent does not have. Of the others, a project can only change the
// expiration date.
func added(images, inherited []gardencorev1beta1.MachineImage) []gardencorev1beta1.MachineImage {
	parent := gardenerutils.NewV1beta1ImagesContext(inherited)

	var added []gardencorev1beta1.MachineImage

	for _, image := range images {
		image.Versions = slices.DeleteFunc(slices.Clone(image.Versions), func(v gardencorev1beta1.MachineImageVersion) bool {
			_, exists := parent.GetImageVersion(image.Name, v.Version)

			return exists
		})
		added = append(added, image)
	}

	return added
}

// operator is the reason for which a project cannot have what its CloudProfile does not offer.
const operator = "only a CloudProfile can have it; ask the operator to add it there"

// validateOperators refuses what only the operator can offer.
func validateOperators(config *api.CloudProfileConfig) field.ErrorList {
	var errs field.ErrorList

	if len(config.VolumeClasses) > 0 {
		errs = append(errs, field.Forbidden(configPath().Child("volumeClasses"), operator))
	}

	// A project must not offer networks or annotations to itself.
	if config.SharedNetworks != nil {
		errs = append(errs, field.Forbidden(configPath().Child("sharedNetworks"), operator))
	}

	if config.LoadBalancer != nil {
		errs = append(errs, field.Forbidden(configPath().Child("loadBalancer"), operator))
	}

	if config.TenantNetworks != nil {
		errs = append(errs, field.Forbidden(configPath().Child("tenantNetworks"), operator))
	}

	if config.PodNetwork != nil {
		errs = append(errs, field.Forbidden(configPath().Child("podNetwork"), operator))
	}

	if config.Bastion != nil {
		errs = append(errs, field.Forbidden(configPath().Child("bastion"), operator))
	}

	return errs
}

// validateInherited refuses versions that the parent has.
func (r *imageRules) validateInherited(images, inherited []api.MachineImages, parent string) field.ErrorList {
	known := sets.New[string]()

	for _, image := range inherited {
		for i := range image.Versions {
			known.Insert(image.Name + " " + image.Versions[i].Version + " " + r.architectureOf(&image.Versions[i]))
		}
	}

	var errs field.ErrorList

	for i, image := range images {
		for j := range image.Versions {
			if v := &image.Versions[j]; known.Has(image.Name + " " + v.Version + " " + r.architectureOf(v)) {
				errs = append(errs, field.Forbidden(configPath().Child("machineImages").Index(i).Child("versions").Index(j), fmt.Sprintf(
					"the CloudProfile %s already has version %s of image %s; use another version", parent, v.Version, image.Name)))
			}
		}
	}

	return errs
}

// validateInheritedTypes refuses machine types that the parent has, and hardware that none of them has: a project
// divides what the operator offers into other sizes.
func validateInheritedTypes(types []api.MachineType, parent *gardencorev1beta1.CloudProfile, inherited []api.MachineType) field.ErrorList {
	offered := map[hardware]int{}
	for i := range inherited {
		for h, n := range counted(hardwareOf(&inherited[i])) {
			offered[h] = max(offered[h], n)
		}
	}

	var errs field.ErrorList

	for i := range types {
		path := configPath().Child("machineTypes").Index(i)

		if slices.ContainsFunc(parent.Spec.MachineTypes, func(t gardencorev1beta1.MachineType) bool { return t.Name == types[i].Name }) {
			errs = append(errs, field.Forbidden(path.Child("name"), fmt.Sprintf(
				"the CloudProfile %s already has machine type %s; use another name", parent.Name, types[i].Name)))
		}

		errs = append(errs, validateOffered(hardwareOf(&types[i]), offered, path)...)
	}

	return errs
}

// validateOffered refuses hardware that no machine type of the operator has, or not as often.
func validateOffered(used []usedHardware, offered map[hardware]int, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	seen := map[hardware]int{}

	for _, h := range used {
		seen[h.hardware]++

		switch n := offered[h.hardware]; {
		case n == 0:
			errs = append(errs, field.Forbidden(h.pathIn(path), operator))
		case seen[h.hardware] > n:
			errs = append(errs, field.Forbidden(h.pathIn(path), fmt.Sprintf(
				"the machine types of the CloudProfile have at most %d of it; ask the operator to add one with more", n)))
		}
	}

	return errs
}

func counted(used []usedHardware) map[hardware]int {
	counts := map[hardware]int{}
	for _, h := range used {
		counts[h.hardware]++
	}

	return counts
}

// hardware is a device, an instance type or a preference of the provider cluster.
type hardware struct{ kind, name string }

// usedHardware is the hardware that a field of a machine type names.
type usedHardware struct {
	hardware

	// list and index are the field; index is negative for a field that is no list.
	list  string
	index int
	child string
}

func (h *usedHardware) pathIn(path *field.Path) *field.Path {
	if path = path.Child(h.list); h.index >= 0 {
		path = path.Index(h.index)
	}

	return path.Child(h.child)
}

// hardwareOf returns the hardware of a machine type. Devices from claims are those of their templates.
func hardwareOf(t *api.MachineType) []usedHardware {
	var used []usedHardware

	add := func(h hardware, list string, index int, child string) {
		if h.name != "" {
			used = append(used, usedHardware{hardware: h, list: list, index: index, child: child})
		}
	}

	for i, gpu := range t.GPUs {
		add(hardware{"device", gpu.DeviceName}, "gpus", i, "deviceName")
	}

	for i, device := range t.HostDevices {
		add(hardware{"device", device.DeviceName}, "hostDevices", i, "deviceName")
	}

	for i, claim := range t.ResourceClaims {
		add(hardware{"template", claim.ResourceClaimTemplateName}, "resourceClaims", i, "resourceClaimTemplateName")
	}

	if m := t.Instancetype; m != nil {
		add(hardware{kindOf(m.Kind, instancetypeapi.ClusterSingularResourceName), m.Name}, "instancetype", -1, "name")
	}

	if m := t.Preference; m != nil {
		add(hardware{kindOf(m.Kind, instancetypeapi.ClusterSingularPreferenceResourceName), m.Name}, "preference", -1, "name")
	}

	return used
}

// kindOf returns a kind in the form in which KubeVirt compares it: in lower case, and in the singular.
func kindOf(kind, otherwise string) string {
	return strings.TrimSuffix(strings.ToLower(cmp.Or(kind, otherwise)), "s")
}
