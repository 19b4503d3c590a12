// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"fmt"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// cloudProfileValidator validates the providerConfig of a CloudProfile.
type cloudProfileValidator struct{}

var _ extensionswebhook.Validator = (*cloudProfileValidator)(nil)

// Validate implements extensionswebhook.Validator. In an update, it reports only errors that the change
// introduces.
func (*cloudProfileValidator) Validate(_ context.Context, newObj, oldObj client.Object) error {
	profile, ok := newObj.(*gardencorev1beta1.CloudProfile)
	if !ok {
		return fmt.Errorf("unexpected type %T", newObj)
	}

	oldProfile, _ := oldObj.(*gardencorev1beta1.CloudProfile)

	switch {
	case profile.DeletionTimestamp != nil || oldProfile != nil && equality.Semantic.DeepEqual(profile.Spec, oldProfile.Spec):
		return nil
	case oldProfile == nil:
		return validateCloudProfile(&profile.Spec).ToAggregate()
	default:
		return introduced(validateCloudProfile(&profile.Spec), validateCloudProfile(&oldProfile.Spec)).ToAggregate()
	}
}

// configPath is the path of the CloudProfileConfig.
func configPath() *field.Path { return field.NewPath("spec", "providerConfig") }

// validateCloudProfile returns the errors of a CloudProfile.
func validateCloudProfile(spec *gardencorev1beta1.CloudProfileSpec) field.ErrorList {
	if spec.ProviderConfig == nil {
		return field.ErrorList{field.Required(configPath(), "set a CloudProfileConfig with the sources of the machine images")}
	}

	config := &api.CloudProfileConfig{}
	errs := api.Decode(spec.ProviderConfig, configPath(), config)

	images := &imageRules{definitions: spec.MachineCapabilities}

	errs = append(errs, images.validateEntries(config.MachineImages)...)
	errs = append(errs, images.validateComplete(spec.MachineImages, config.MachineImages)...)
	errs = append(errs, images.validateSources(config.MachineImages)...)
	errs = append(errs, validateMachineTypes(spec.MachineTypes, config.MachineTypes)...)

	volumeClasses := configPath().Child("volumeClasses")
	errs = append(errs, validation.ValidateVolumeClasses(config.VolumeClasses, volumeClasses)...)
	errs = append(errs, validateVolumeTypes(spec.VolumeTypes)...)
	errs = append(errs, validation.ValidateOfferedNetworks(config.SharedNetworks, configPath().Child("sharedNetworks"))...)
	errs = append(errs, validation.ValidateOfferedLoadBalancer(config.LoadBalancer, configPath().Child("loadBalancer"))...)
	errs = append(errs, validation.ValidateTenantNetworkTypes(config.TenantNetworks, configPath().Child("tenantNetworks"))...)
	errs = append(errs, validation.ValidatePodNetwork(config.PodNetwork, configPath().Child("podNetwork"))...)
	errs = append(errs, validation.ValidateOfferedBastion(config.Bastion, configPath().Child("bastion"))...)

	return append(errs, validateVolumeClassZones(spec.Regions, config.VolumeClasses, volumeClasses)...)
}

// validateVolumeTypes returns the errors of the storage classes of volume types.
func validateVolumeTypes(types []gardencorev1beta1.VolumeType) field.ErrorList {
	var errs field.ErrorList

	for i, t := range types {
		if t.Class != "" {
			errs = append(errs, validation.ValidateStorageClass(t.Class, field.NewPath("spec", "volumeTypes").Index(i).Child("class"))...)
		}
	}

	return errs
}

// validateMachineTypes returns the errors of the extensions of machine types, and of all machine types.
func validateMachineTypes(specs []gardencorev1beta1.MachineType, extended []api.MachineType) field.ErrorList {
	var errs field.ErrorList

	types := map[string]*gardencorev1beta1.MachineType{}
	known := map[string]api.MachineType{}
	for i := range specs {
		types[specs[i].Name] = &specs[i]
	}

	for i, e := range extended {
		path := configPath().Child("machineTypes").Index(i)
		_, twice := known[e.Name]
		t, found := types[e.Name]

		switch {
		case twice:
			errs = append(errs, field.Duplicate(path.Child("name"), e.Name))
		case !found:
			errs = append(errs, field.Invalid(path.Child("name"), e.Name, "spec.machineTypes has no machine type with this name; add it there, or remove this entry"))
		default:
			errs = append(errs, validateLimits(t, &e, path)...)
			errs = append(errs, validation.ValidateHardware(&e, path)...)
		}

		known[e.Name] = e
	}

	for i := range specs {
		e := known[specs[i].Name]
		errs = append(errs, validateGPUs(&specs[i], &e, field.NewPath("spec", "machineTypes").Index(i))...)
		errs = append(errs, validateMachine(specs[i], e, anyImage(&specs[i]))...)
	}

	return errs
}

// validateGPUs returns an error if cluster-autoscaler would expect other GPUs than the machines have. Those of an
// instance type are not known.
func validateGPUs(t *gardencorev1beta1.MachineType, e *api.MachineType, path *field.Path) field.ErrorList {
	if e.Instancetype != nil || t.GPU.Value() == int64(len(e.GPUs)) {
		return nil
	}

	return field.ErrorList{field.Invalid(path.Child("gpu"), t.GPU.String(), fmt.Sprintf(
		"must be the number of gpus of this machine type in spec.providerConfig.machineTypes, which is %d", len(e.GPUs)))}
}

// validateLimits returns the errors of limits that contradict the machine type.
func validateLimits(t *gardencorev1beta1.MachineType, e *api.MachineType, path *field.Path) field.ErrorList {
	switch {
	case e.Limits == nil:
		return nil
	case e.Instancetype != nil:
		return field.ErrorList{field.Forbidden(path.Child("limits"), "the instance type defines CPU and memory; remove the limits")}
	default:
		return append(validateLimit(e.Limits.CPU, &t.CPU, "cpu", path), validateLimit(e.Limits.Memory, &t.Memory, "memory", path)...)
	}
}

// validateLimit returns an error if a limit is lower than the request; KubeVirt refuses such machines.
func validateLimit(value, request *resource.Quantity, name string, path *field.Path) field.ErrorList {
	if value == nil || value.Cmp(*request) >= 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(path.Child("limits", name), value.String(), fmt.Sprintf(
		"must be at least the %s of the machine type in spec.machineTypes, which is %s", name, request.String()))}
}

// validateVolumeClassZones returns the errors of zones that no region has.
func validateVolumeClassZones(regions []gardencorev1beta1.Region, classes []api.VolumeClass, path *field.Path) field.ErrorList {
	zones := sets.New(providerspec.AnyTopology) // It is reported with the other rules of zones.

	for _, region := range regions {
		for _, zone := range region.Zones {
			zones.Insert(zone.Name)
		}
	}

	var errs field.ErrorList

	for i, class := range classes {
		for j, zone := range class.Zones {
			if zone != "" && !zones.Has(zone) {
				errs = append(errs, field.Invalid(path.Index(i).Child("zones").Index(j), zone, "no region in spec.regions has this zone; add it there, or remove it here"))
			}
		}
	}

	return errs
}
