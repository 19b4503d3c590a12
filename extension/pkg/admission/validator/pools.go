// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// validatePools returns the errors of the worker pools: those for which the Worker controller would generate no
// MachineClass. It ends early if the context ends.
func (c *validationContext) validatePools(ctx context.Context, networks []api.NetworkStatus) field.ErrorList {
	zones := 0
	size := 0
	for i := range c.Spec.Provider.Workers {
		zones += len(c.Spec.Provider.Workers[i].Zones)
	}

	if errs := workerpool.ValidateClassCount(zones); len(errs) > 0 {
		return errs
	}

	settings := &workerpool.Settings{
		TechnicalID:   c.technicalID(),
		Region:        c.Spec.Region,
		PodNetwork:    c.podNetwork(),
		Networks:      networks,
		Profile:       c.profile,
		ProfileConfig: &c.profileConfig,
		ImagesInUse:   c.imagesInUse(),
	}

	errs := slices.Clone(c.profileErrs)

	for i := range c.Spec.Provider.Workers {
		if ctx.Err() != nil {
			break // Validate reports it.
		}

		classes, found := validatePool(settings, &c.Spec.Provider.Workers[i], provider().Child("workers").Index(i))
		errs, size = append(errs, found...), size+classes

		if tooLarge := workerpool.ValidateClassSize(size); len(tooLarge) > 0 {
			return append(errs, tooLarge...)
		}
	}

	return errs
}

// validatePool returns the errors of a pool, and the size of its MachineClasses.
func validatePool(settings *workerpool.Settings, w *gardencorev1beta1.Worker, path *field.Path) (size int, _ field.ErrorList) {
	pool, errs := settings.Pool(workerpool.FromWorker(w), path)
	errs = append(errs, pool.ValidateAnnotations(nil)...)

	if pool.Type == nil || pool.Image == nil {
		return 0, errs
	}

	reported := sets.New[string]()
	for _, err := range errs {
		reported.Insert(err.Field)
	}

	size, found := pool.Validate()
	for _, err := range found {
		if !reported.Has(err.Field) {
			errs = append(errs, err)
		}
	}

	return size, errs
}

// imagesInUse returns the images of an existing Shoot: it can use them even if they were removed from the
// CloudProfile. Only the status of the Worker has their sources. Pools without a root volume have container
// disks; they come first, since a pool with a root volume can have one, too.
func (c *validationContext) imagesInUse() []api.MachineImage {
	if c.old == nil {
		return nil
	}

	var disks, images []api.MachineImage

	for i := range c.old.Spec.Provider.Workers {
		w := &c.old.Spec.Provider.Workers[i]

		image := w.Machine.Image
		if image == nil {
			continue
		}

		used := api.MachineImage{Name: image.Name, Version: ptr.Deref(image.Version, ""), Architecture: w.Machine.Architecture}

		if w.Volume == nil && !hasStorage(c.profile, w.Machine.Type) {
			used.Source = &api.ImageSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "in-use.example.com/image"}}
			disks = append(disks, used)
		} else {
			used.Source = &api.ImageSource{SourceURL: "https://in-use.example.com"}
			images = append(images, used)
		}
	}

	return append(disks, images...)
}

// hasStorage reports whether a machine type has a root volume of its own.
func hasStorage(profile *gardencorev1beta1.CloudProfileSpec, name string) bool {
	machineType := v1beta1helper.FindMachineTypeByName(profile.MachineTypes, name)

	return machineType != nil && machineType.Storage != nil && machineType.Storage.StorageSize != nil
}
