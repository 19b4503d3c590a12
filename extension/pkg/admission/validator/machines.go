// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// validateSources returns the errors of all images for which the driver would refuse a machine.
func (r *imageRules) validateSources(images []api.MachineImages) field.ErrorList {
	if countVersions(images) > maxVersions {
		return nil // validateEntries reports it.
	}

	var errs field.ErrorList

	for _, image := range images {
		for i := range image.Versions {
			v := &image.Versions[i]
			sources := []*api.ImageSource{&v.ImageSource}

			if len(v.CapabilityFlavors) > 0 {
				sources = nil
				for j := range v.CapabilityFlavors {
					sources = append(sources, &v.CapabilityFlavors[j].ImageSource)
				}
			}

			for _, source := range sources {
				if len(sourcesOf(source)) != 1 {
					continue // validateEntries reports it.
				}

				tried := api.MachineImage{Name: image.Name, Version: v.Version, Source: source, Architecture: v.Architecture}
				errs = append(errs, validateMachine(anyType(v.Architecture), api.MachineType{}, tried)...)
			}
		}
	}

	return errs
}

// validateMachine returns the errors of the smallest pool with a machine type and an image: the errors of a
// CloudProfile that its Shoots could not correct.
func validateMachine(machineType gardencorev1beta1.MachineType, extended api.MachineType, image api.MachineImage) field.ErrorList {
	const inCloudProfile = "CloudProfile."

	extended.Name = machineType.Name
	machineType.Capabilities = nil
	shoot := &workerpool.Settings{
		TechnicalID:   anyTechnicalID,
		Region:        providerspec.AnyTopology,
		Profile:       &gardencorev1beta1.CloudProfileSpec{MachineTypes: []gardencorev1beta1.MachineType{machineType}},
		ProfileConfig: &api.CloudProfileConfig{MachineTypes: []api.MachineType{extended}},
		ImagesInUse:   []api.MachineImage{image},
	}

	spec := extensionsv1alpha1.WorkerPool{
		Name:         "pool",
		MachineType:  machineType.Name,
		Architecture: image.Architecture,
		Zones:        []string{providerspec.AnyTopology},
		MachineImage: extensionsv1alpha1.MachineImage{Name: image.Name, Version: image.Version},
	}
	if machineType.Storage == nil || machineType.Storage.StorageSize == nil {
		spec.Volume = &extensionsv1alpha1.Volume{Size: "100Gi"}
	}

	pool, errs := shoot.Pool(spec, field.NewPath("pool"))
	if len(errs) == 0 {
		_, _, errs = pool.ProviderSpec(0)
	}

	for _, err := range errs {
		err.Field = strings.TrimPrefix(err.Field, inCloudProfile)
	}

	return errs
}

// anyType returns a machine type for the validation of an image.
func anyType(architecture *string) gardencorev1beta1.MachineType {
	return gardencorev1beta1.MachineType{Name: "any", CPU: resource.MustParse("1"), Memory: resource.MustParse("4Gi"), Architecture: architecture}
}

// anyImage returns an image for the validation of a machine type.
func anyImage(t *gardencorev1beta1.MachineType) api.MachineImage {
	architecture := ptr.Deref(t.Architecture, v1beta1constants.ArchitectureAMD64)
	if values := t.Capabilities[v1beta1constants.ArchitectureName]; len(values) > 0 {
		architecture = values[0]
	}

	return api.MachineImage{Name: "any", Version: "1", Architecture: &architecture, Source: &api.ImageSource{SourceURL: "https://images.example.com/any"}}
}
