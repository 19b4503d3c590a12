package worker

import (
	"context"
	"slices"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// imageInProfile returns the image of a pool according to the CloudProfile; nil if there is none.
func imageInProfile(profile *api.CloudProfileConfig, p *pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	var versions []api.MachineImageVersion

	for _, image := range profile.MachineImages {
		if image.Name == p.MachineImage.Name {
			versions = append(versions, image.Versions...)
		}
	}

	versions = slices.DeleteFunc(versions, func(v api.MachineImageVersion) bool { return v.Version != p.MachineImage.Version })

	if len(definitions) > 0 {
		return flavorOf(versions, p, definitions)
	}

	for i := range versions {
		// A version with flavors has its sources there, and they need capabilities.
		if len(versions[i].CapabilityFlavors) == 0 && ptr.Deref(versions[i].Architecture, v1beta1constants.ArchitectureAMD64) == p.architecture {
			return &api.MachineImage{
				Name: p.MachineImage.Name, Version: p.MachineImage.Version, Source: &versions[i].ImageSource, Architecture: &p.architecture,
			}
		}
	}

	return nil
}

// flavorOf returns the flavor that fits the machine type best; nil if none fits. A version without
// flavors is a flavor of its architecture.
func flavorOf(versions []api.MachineImageVersion, p *pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	var flavors []*api.MachineImageFlavor

	for i := range versions {
		v := &versions[i]
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
		Name: p.MachineImage.Name, Version: p.MachineImage.Version, Source: &best.ImageSource,
		Capabilities: gardencorev1beta1.GetCapabilitiesWithAppliedDefaults(best.Capabilities, definitions),
	}
}

// capabilities returns the capabilities of the pool's machines.
func (p *pool) capabilities() gardencorev1beta1.Capabilities {
	capabilities := capabilitiesOf(p.architecture)

	for name, values := range p.machineType.Capabilities {
		if name != v1beta1constants.ArchitectureName {
			capabilities[name] = values
		}
	}

	return capabilities
}

func capabilitiesOf(architecture string) gardencorev1beta1.Capabilities {
	return gardencorev1beta1.Capabilities{v1beta1constants.ArchitectureName: []string{architecture}}
}

// imageInStatus returns the image of a pool that the Worker already uses; nil if there is none.
// Statuses of the archived extension have no architecture, and those from before the CloudProfile had
// capabilities have no capabilities.
func imageInStatus(status *api.WorkerStatus, p *pool, definitions []gardencorev1beta1.CapabilityDefinition) *api.MachineImage {
	for i := range status.MachineImages {
		image := status.MachineImages[i].DeepCopy()
		if image.Name != p.MachineImage.Name || image.Version != p.MachineImage.Version {
			continue
		}

		capabilities := image.Capabilities
		if len(capabilities) == 0 {
			capabilities = capabilitiesOf(ptr.Deref(image.Architecture, v1beta1constants.ArchitectureAMD64))
		}

		if !slices.Contains(capabilities[v1beta1constants.ArchitectureName], p.architecture) ||
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

// UpdateMachineImagesStatus implements genericactuator.WorkerDelegate: it records the images in
// use, so that they can be removed from the CloudProfile.
func (d *delegate) UpdateMachineImagesStatus(ctx context.Context) error {
	w, err := d.generated(ctx)
	if err != nil {
		return err
	}

	if equality.Semantic.DeepEqual(d.status.MachineImages, w.images) {
		return nil
	}

	before := d.worker.DeepCopy()
	d.status.TypeMeta, d.status.MachineImages = api.TypeMeta("WorkerStatus"), w.images
	d.worker.Status.ProviderStatus = &runtime.RawExtension{Object: &d.status}

	return d.seed.Status().Patch(ctx, d.worker, client.MergeFrom(before))
}

// appendImage adds an image, unless it is listed already.
func appendImage(images []api.MachineImage, image *api.MachineImage) []api.MachineImage {
	recorded := *image.DeepCopy()
	if recorded.SourceURL == "" {
		recorded.SourceURL = recorded.Source.SourceURL
	}

	if slices.ContainsFunc(images, func(known api.MachineImage) bool { return equality.Semantic.DeepEqual(known, recorded) }) {
		return images
	}

	return append(images, recorded)
}
