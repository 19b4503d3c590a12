package validator

import (
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// pools returns the errors of the worker pools: those for which the Worker controller would generate no
// MachineClass.
func (s *shoot) pools(networks []api.NetworkStatus) field.ErrorList {
	settings := &workerpool.Shoot{
		TechnicalID: s.technicalID(), Region: s.Spec.Region, Networks: networks,
		Profile: s.profile, ProfileConfig: &api.CloudProfileConfig{}, ImagesInUse: s.imagesInUse(),
	}

	errs := api.Decode(s.profile.ProviderConfig, field.NewPath("CloudProfile", "spec", "providerConfig"), settings.ProfileConfig)
	for i := range s.Spec.Provider.Workers {
		errs = append(errs, poolErrors(settings, &s.Spec.Provider.Workers[i], provider().Child("workers").Index(i))...)
	}

	return errs
}

// poolErrors returns the errors of a pool in all its zones.
func poolErrors(settings *workerpool.Shoot, given *gardencorev1beta1.Worker, path *field.Path) field.ErrorList {
	pool, errs := settings.Pool(workerPool(given), path)
	if pool.Type == nil || pool.Image == nil {
		return errs
	}

	reported := sets.New[string]()
	for _, err := range errs {
		reported.Insert(err.Field)
	}

	for zone := range pool.Zones {
		_, _, found := pool.ProviderSpec(zone)
		for _, err := range found {
			// Most errors are those of all zones.
			if !reported.Has(err.Field) {
				errs = append(errs, err)
			}
		}

		for _, err := range found {
			reported.Insert(err.Field)
		}
	}

	return errs
}

// workerPool returns the parts of a pool that gardenlet copies into the Worker, as far as ProviderSpecs
// depend on them.
func workerPool(w *gardencorev1beta1.Worker) extensionsv1alpha1.WorkerPool {
	pool := extensionsv1alpha1.WorkerPool{
		Name: w.Name, Architecture: w.Machine.Architecture, MachineType: w.Machine.Type, ProviderConfig: w.ProviderConfig, Zones: w.Zones,
	}

	if image := w.Machine.Image; image != nil {
		pool.MachineImage = extensionsv1alpha1.MachineImage{Name: image.Name, Version: ptr.Deref(image.Version, "")}
	}

	if v := w.Volume; v != nil {
		pool.Volume = &extensionsv1alpha1.Volume{Name: v.Name, Type: v.Type, Size: v.VolumeSize, Encrypted: v.Encrypted}
	}

	for _, v := range w.DataVolumes {
		pool.DataVolumes = append(pool.DataVolumes, extensionsv1alpha1.DataVolume{Name: v.Name, Type: v.Type, Size: v.VolumeSize, Encrypted: v.Encrypted})
	}

	return pool
}

// imagesInUse returns the images of an existing Shoot: it can use them even if they were removed from the
// CloudProfile. Only the status of the Worker has their sources.
func (s *shoot) imagesInUse() []api.MachineImage {
	if s.before == nil {
		return nil
	}

	var images []api.MachineImage

	for _, w := range s.before.Spec.Provider.Workers {
		if image := w.Machine.Image; image != nil {
			images = append(images, api.MachineImage{
				Name: image.Name, Version: ptr.Deref(image.Version, ""), Architecture: w.Machine.Architecture,
				Source: &api.ImageSource{SourceURL: "https://in-use.example.com"},
			})
		}
	}

	return images
}
