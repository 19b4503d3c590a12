// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"
	"slices"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// namespacedCloudProfileValidator validates the providerConfig of a NamespacedCloudProfile: the sources of
// the machine images that a project adds.
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
	errs := append(api.Decode(profile.ProviderConfig, configPath(), config), validateOnlyImages(config)...)
	_ = api.Decode(parent.Spec.ProviderConfig, nil, inherited) // The validator of the CloudProfile reports errors.

	// gardener-controller-manager converts the project's entries to the format of the CloudProfile.
	spec := gardenerutils.TransformSpecToParentFormat(*profile.DeepCopy(), parent.Spec.MachineCapabilities)
	images := &imageRules{definitions: parent.Spec.MachineCapabilities}

	errs = append(errs, images.validateEntries(config.MachineImages)...)
	errs = append(errs, images.validateInherited(config.MachineImages, inherited.MachineImages, parent.Name)...)
	errs = append(errs, images.validateSources(config.MachineImages)...)
	errs = append(errs, images.validateComplete(added(spec.MachineImages, parent.Spec.MachineImages), config.MachineImages)...)
	errs = append(errs, validateMachineTypes(spec.MachineTypes, nil)...)

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

// validateOnlyImages refuses what only the operator can offer.
func validateOnlyImages(config *api.CloudProfileConfig) field.ErrorList {
	const operator = "only a CloudProfile can have it; ask the operator to add it there"

	var errs field.ErrorList

	if len(config.MachineTypes) > 0 {
		errs = append(errs, field.Forbidden(configPath().Child("machineTypes"), operator))
	}

	if len(config.VolumeClasses) > 0 {
		errs = append(errs, field.Forbidden(configPath().Child("volumeClasses"), operator))
	}

	// A project must not offer networks to itself.
	if config.SharedNetworks != nil {
		errs = append(errs, field.Forbidden(configPath().Child("sharedNetworks"), operator))
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
