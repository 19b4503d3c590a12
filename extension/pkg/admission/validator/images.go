// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"slices"
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// imageRules are the rules of machineImages in a CloudProfileConfig.
type imageRules struct {
	// definitions are spec.machineCapabilities of the CloudProfile.
	definitions []gardencorev1beta1.CapabilityDefinition
}

// maxVersions bounds the versions of a list, each of which is validated as a part of a machine. The API
// server waits at most ten seconds.
const maxVersions = 1000

func countVersions(images []api.MachineImages) int {
	count := 0

	for _, image := range images {
		for _, v := range image.Versions {
			count += max(1, len(v.CapabilityFlavors))
		}
	}

	return count
}

// validateEntries returns the errors of the list: names, versions, and exactly one source for each disk.
func (r *imageRules) validateEntries(images []api.MachineImages) field.ErrorList {
	if count := countVersions(images); count > maxVersions {
		return field.ErrorList{field.TooMany(configPath().Child("machineImages"), count, maxVersions)}
	}

	var errs field.ErrorList

	known := sets.New[string]()

	for i, image := range images {
		path := configPath().Child("machineImages").Index(i)

		if image.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "set the name of an image in spec.machineImages"))
		}

		if len(image.Versions) == 0 {
			errs = append(errs, field.Required(path.Child("versions"), "add a version, or remove the image"))
		}

		for j := range image.Versions {
			path := path.Child("versions").Index(j)
			v := &image.Versions[j]
			key := strings.Join([]string{image.Name, v.Version, r.architectureOf(v)}, " ")

			switch {
			case v.Version == "":
				errs = append(errs, field.Required(path.Child("version"), "set a version of the image in spec.machineImages"))
			case known.Has(key):
				errs = append(errs, field.Duplicate(path, key))
			}

			known.Insert(key)

			errs = append(errs, r.validateVersion(v, path)...)
		}
	}

	return errs
}

// architectureOf returns the architecture of a version that is not selected by capabilities.
func (r *imageRules) architectureOf(v *api.MachineImageVersion) string {
	if len(v.CapabilityFlavors) > 0 {
		return ""
	}

	return ptr.Deref(v.Architecture, v1beta1constants.ArchitectureAMD64)
}

// validateVersion returns the errors of the sources of a version.
func (r *imageRules) validateVersion(v *api.MachineImageVersion, path *field.Path) field.ErrorList {
	if len(v.CapabilityFlavors) == 0 {
		return append(validateArchitecture(v.Architecture, path.Child("architecture")), validateOneSource(&v.ImageSource, path)...)
	}

	var errs field.ErrorList

	if sources := sourcesOf(&v.ImageSource); len(sources) > 0 {
		errs = append(errs, field.Forbidden(path.Child(sources[0]), "a version with capabilityFlavors has its sources there; remove it"))
	}

	if len(r.definitions) == 0 {
		return append(errs, field.Forbidden(path.Child("capabilityFlavors"), "the CloudProfile has no spec.machineCapabilities; set the source and the architecture of the version instead"))
	}

	known := sets.New[string]()

	for i := range v.CapabilityFlavors {
		flavor, path := &v.CapabilityFlavors[i], path.Child("capabilityFlavors").Index(i)
		errs = append(errs, validateOneSource(&flavor.ImageSource, path)...)
		errs = append(errs, gardenerutils.ValidateCapabilities(flavor.Capabilities, r.definitions, path.Child("capabilities"))...)

		key := keyOf(r.withDefaults(flavor.Capabilities))
		if known.Has(key) {
			errs = append(errs, field.Duplicate(path.Child("capabilities"), textOf(flavor.Capabilities)))
		}

		known.Insert(key)
	}

	return errs
}

func validateArchitecture(value *string, path *field.Path) field.ErrorList {
	if value == nil || slices.Contains(v1beta1constants.ValidArchitectures, *value) {
		return nil
	}

	return field.ErrorList{field.NotSupported(path, *value, v1beta1constants.ValidArchitectures)}
}

func (r *imageRules) withDefaults(c gardencorev1beta1.Capabilities) gardencorev1beta1.Capabilities {
	return gardencorev1beta1.GetCapabilitiesWithAppliedDefaults(c, r.definitions)
}

// validateOneSource returns an error unless there is exactly one source.
func validateOneSource(s *api.ImageSource, path *field.Path) field.ErrorList {
	switch sources := sourcesOf(s); len(sources) {
	case 0:
		return field.ErrorList{field.Required(path.Child("sourceURL"), "set sourceURL, source, sourceRef or containerDisk")}
	case 1:
		return nil
	default:
		return field.ErrorList{field.Forbidden(path.Child(sources[1]), fmt.Sprintf("the image already has %s; remove one of them", sources[0]))}
	}
}

// sourcesOf returns the fields with a source.
func sourcesOf(s *api.ImageSource) []string {
	var names []string

	for _, f := range []struct {
		name string
		set  bool
	}{
		{"sourceURL", s.SourceURL != ""}, {"source", s.Source != nil}, {"sourceRef", s.SourceRef != nil}, {"containerDisk", s.ContainerDisk != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}

	return names
}

// disks are the disks of a version in a CloudProfileConfig.
type disks struct {
	// flavors are the keys of capabilities, architectures those of versions without flavors.
	flavors, architectures sets.Set[string]
}

// validateComplete returns the versions and architectures, or flavors, that Shoots can choose, but that have no
// source.
func (r *imageRules) validateComplete(offered []gardencorev1beta1.MachineImage, images []api.MachineImages) field.ErrorList {
	var errs field.ErrorList

	sources := r.disksOf(images)

	for _, image := range offered {
		for i := range image.Versions {
			version := &image.Versions[i]

			for _, desired := range r.variants(version) {
				if !r.provides(sources[image.Name+" "+version.Version], desired) {
					errs = append(errs, field.Required(configPath().Child("machineImages"), fmt.Sprintf(
						"add the source of version %s of image %s for %s, which spec.machineImages offers", version.Version, image.Name, textOf(desired))))
				}
			}
		}
	}

	return errs
}

// disksOf returns the disks of each image and version.
func (r *imageRules) disksOf(images []api.MachineImages) map[string]disks {
	found := map[string]disks{}

	for _, image := range images {
		for i := range image.Versions {
			v := &image.Versions[i]

			d, exists := found[image.Name+" "+v.Version]
			if !exists {
				d = disks{flavors: sets.New[string](), architectures: sets.New[string]()}
				found[image.Name+" "+v.Version] = d
			}

			if len(v.CapabilityFlavors) == 0 {
				d.architectures.Insert(r.architectureOf(v))
			}

			for j := range v.CapabilityFlavors {
				d.flavors.Insert(keyOf(r.withDefaults(v.CapabilityFlavors[j].Capabilities)))
			}
		}
	}

	return found
}

// variants returns the capabilities of the disks that a version of spec.machineImages needs.
func (r *imageRules) variants(version *gardencorev1beta1.MachineImageVersion) []gardencorev1beta1.Capabilities {
	var variants []gardencorev1beta1.Capabilities

	if len(r.definitions) > 0 {
		for _, flavor := range v1beta1helper.GetImageFlavorsWithAppliedDefaults(version.CapabilityFlavors, r.definitions) {
			variants = append(variants, flavor.Capabilities)
		}

		return variants
	}

	for _, architecture := range version.Architectures {
		variants = append(variants, ofArchitecture(architecture))
	}

	if len(variants) == 0 {
		variants = append(variants, ofArchitecture(v1beta1constants.ArchitectureAMD64))
	}

	return variants
}

func ofArchitecture(architecture string) gardencorev1beta1.Capabilities {
	return gardencorev1beta1.Capabilities{v1beta1constants.ArchitectureName: {architecture}}
}

// provides reports whether there is a disk with the capabilities.
func (r *imageRules) provides(d disks, desired gardencorev1beta1.Capabilities) bool {
	if d.flavors.Has(keyOf(desired)) {
		return true
	}

	architectures := desired[v1beta1constants.ArchitectureName]

	return len(architectures) == 1 && d.architectures.Has(architectures[0]) &&
		v1beta1helper.AreCapabilitiesCompatible(desired, ofArchitecture(architectures[0]), r.definitions)
}

// keyOf returns a text that is the same for equal capabilities.
func keyOf(c gardencorev1beta1.Capabilities) string {
	sorted := map[string][]string{}
	for name, values := range c {
		sorted[name] = slices.Compact(slices.Sorted(slices.Values(values)))
	}

	return fmt.Sprintf("%q", sorted) // fmt sorts the names.
}

// textOf names capabilities, in a stable order.
func textOf(c gardencorev1beta1.Capabilities) string {
	var texts []string
	for name, values := range c {
		texts = append(texts, name+" "+strings.Join(values, ", "))
	}

	slices.Sort(texts)

	return strings.Join(texts, "; ")
}
