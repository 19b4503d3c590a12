// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"fmt"
	"slices"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// resolveImage finds the image in the CloudProfile, or, if it was removed there, among those that
// are in use.
func (p *Pool) resolveImage() field.ErrorList {
	definitions := p.settings.Profile.MachineCapabilities

	if p.Image = imageInProfile(p.settings.ProfileConfig, p, definitions); p.Image == nil {
		p.Image = imageInUse(p.settings.ImagesInUse, p, definitions)
	}

	if p.Image != nil {
		if p.Image.Source.ContainerDisk != nil && p.Volume != nil && ptr.Deref(p.Volume.Encrypted, false) {
			return field.ErrorList{field.Forbidden(p.path.Child("volume", "encrypted"), "the image is a container disk: the machine has no root volume; remove the field, or use another image")}
		}

		return nil
	}

	missing := field.NotFound(p.path.Child("machine", "image"), p.MachineImage.Name+" "+p.MachineImage.Version)
	missing.Detail = fmt.Sprintf("the providerConfig of the CloudProfile has no source for this image and version that fits architecture %s and machine type %s; "+
		"use another version, or add the source to the CloudProfile", p.GuestArchitecture, p.MachineType)

	return field.ErrorList{missing}
}

// imageInProfile returns the image of a pool according to the CloudProfile; nil if there is none.
func imageInProfile(profile *api.CloudProfileConfig, p *Pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	var versions []*api.MachineImageVersion

	for i := range profile.MachineImages {
		image := &profile.MachineImages[i]
		if image.Name != p.MachineImage.Name {
			continue
		}

		for j := range image.Versions {
			if image.Versions[j].Version == p.MachineImage.Version {
				versions = append(versions, &image.Versions[j])
			}
		}
	}

	if len(definitions) > 0 {
		return flavorOf(versions, p, definitions)
	}

	for _, v := range versions {
		// A version with flavors has its sources there, and they need capabilities.
		if len(v.CapabilityFlavors) == 0 && ptr.Deref(v.Architecture, v1beta1constants.ArchitectureAMD64) == p.GuestArchitecture {
			return &api.MachineImage{
				Name:         p.MachineImage.Name,
				Version:      p.MachineImage.Version,
				Source:       &v.ImageSource,
				Architecture: &p.GuestArchitecture,
			}
		}
	}

	return nil
}

// flavorOf returns the flavor that fits the machine type best; nil if none fits. A version without
// flavors is a flavor of its architecture.
func flavorOf(versions []*api.MachineImageVersion, p *Pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	var flavors []*api.MachineImageFlavor

	for _, v := range versions {
		if len(v.CapabilityFlavors) == 0 {
			architecture := ptr.Deref(v.Architecture, v1beta1constants.ArchitectureAMD64)
			flavors = append(flavors, &api.MachineImageFlavor{ImageSource: v.ImageSource, Capabilities: capabilitiesOf(architecture)})
		}

		for j := range v.CapabilityFlavors {
			flavors = append(flavors, &v.CapabilityFlavors[j])
		}
	}

	best, err := worker.FindBestImageFlavor(flavors, p.capabilities(), definitions)
	if err != nil {
		return nil
	}

	return &api.MachineImage{
		Name:         p.MachineImage.Name,
		Version:      p.MachineImage.Version,
		Source:       &best.ImageSource,
		Capabilities: gardencorev1beta1.GetCapabilitiesWithAppliedDefaults(best.Capabilities, definitions),
	}
}

// capabilities returns the capabilities of the pool's machines.
func (p *Pool) capabilities() gardencorev1beta1.Capabilities {
	capabilities := capabilitiesOf(p.GuestArchitecture)

	for name, values := range p.Type.Capabilities {
		if name != v1beta1constants.ArchitectureName {
			capabilities[name] = values
		}
	}

	return capabilities
}

func capabilitiesOf(architecture string) gardencorev1beta1.Capabilities {
	return gardencorev1beta1.Capabilities{v1beta1constants.ArchitectureName: []string{architecture}}
}

// imageInUse returns the image of a pool that is in use already; nil if there is none.
// Statuses of the archived extension have no architecture, and those from before the CloudProfile had
// capabilities have no capabilities.
func imageInUse(used []api.MachineImage, p *Pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	for i := range used {
		image := used[i].DeepCopy()
		if image.Name != p.MachineImage.Name || image.Version != p.MachineImage.Version {
			continue
		}

		capabilities := image.Capabilities
		if len(capabilities) == 0 {
			capabilities = capabilitiesOf(ptr.Deref(image.Architecture, v1beta1constants.ArchitectureAMD64))
		}

		if !slices.Contains(capabilities[v1beta1constants.ArchitectureName], p.GuestArchitecture) ||
			len(definitions) > 0 && !v1beta1helper.AreCapabilitiesCompatible(capabilities, p.capabilities(), definitions) {
			continue
		}

		if image.Source == nil {
			image.Source = &api.ImageSource{SourceURL: image.SourceURL}
		}

		return image
	}

	return nil
}
