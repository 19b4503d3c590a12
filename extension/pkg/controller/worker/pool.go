package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// pool is a worker pool with the parts of the CloudProfile that it refers to.
type pool struct {
	extensionsv1alpha1.WorkerPool

	// path is the path of the pool in the Shoot.
	path *field.Path

	config       api.WorkerConfig
	architecture string
	machineType  *gardencorev1beta1.MachineType
	// extended is the extension of the machine type; empty if it has none.
	extended api.MachineType
	image    *api.MachineImage
	root     volume
	data     []volume
	userData []byte
}

// volume is a volume of a worker pool.
type volume struct {
	name string
	// class is the storage class; nil for the default of the provider cluster.
	class *string
	size  resource.Quantity
}

// newPool resolves the references of a pool. It reports errors with the fields of the Shoot.
func (d *delegate) newPool(ctx context.Context, given extensionsv1alpha1.WorkerPool) (*pool, field.ErrorList, error) {
	p := &pool{
		WorkerPool: given, path: d.pathOf(given.Name), architecture: ptr.Deref(given.Architecture, v1beta1constants.ArchitectureAMD64),
	}

	errs := api.Decode(given.ProviderConfig, p.path.Child("providerConfig"), &p.config)
	errs = append(errs, p.resolveMachineType(d)...)

	if len(p.Zones) == 0 {
		errs = append(errs, field.Required(p.path.Child("zones"), "set at least one zone of the region; without zones, the pool has no machines"))
	}

	errs = append(errs, p.resolveVolumes(d)...)

	if p.machineType != nil {
		errs = append(errs, p.resolveImage(d)...)
		errs = append(errs, p.withinType()...)
	}

	var err error
	p.userData, err = worker.FetchUserData(ctx, d.seed, d.worker.Namespace, given)

	return p, errs, err
}

// pathOf returns the path of a pool in the Shoot.
func (d *delegate) pathOf(name string) *field.Path {
	workers := field.NewPath("spec", "provider", "workers")

	i := slices.IndexFunc(d.cluster.Shoot.Spec.Provider.Workers, func(w gardencorev1beta1.Worker) bool { return w.Name == name })
	if i < 0 {
		return workers.Key(name)
	}

	return workers.Index(i)
}

func (p *pool) resolveMachineType(d *delegate) field.ErrorList {
	if p.machineType = v1beta1helper.FindMachineTypeByName(d.cluster.CloudProfile.Spec.MachineTypes, p.MachineType); p.machineType == nil {
		return field.ErrorList{field.NotFound(p.path.Child("machine", "type"), p.MachineType)}
	}

	if i := slices.IndexFunc(d.profile.MachineTypes, func(t api.MachineType) bool { return t.Name == p.MachineType }); i >= 0 {
		p.extended = d.profile.MachineTypes[i]
	}

	return nil
}

// withinType refuses what the machine type defines: CPU and memory of an instance type, and more memory
// than the operator offers. The provider cluster would reserve only the memory of the machine type.
// More CPUs are allowed, since the requests and limits of the machine type still bound their time.
func (p *pool) withinType() field.ErrorList {
	config := p.path.Child("providerConfig")

	if p.extended.Instancetype != nil {
		const defined = "the instance type of the machine type defines it; remove it, or use another machine type"

		var errs field.ErrorList
		if p.config.CPU != nil {
			errs = append(errs, field.Forbidden(config.Child("cpu"), defined))
		}

		if p.config.Memory != nil {
			errs = append(errs, field.Forbidden(config.Child("memory"), defined))
		}

		return errs
	}

	m := p.config.Memory
	if m == nil || m.Guest == nil {
		return nil
	}

	most := p.machineType.Memory
	if limits := p.extended.Limits; limits != nil && limits.Memory != nil && limits.Memory.Cmp(most) > 0 {
		most = *limits.Memory
	}

	if m.Guest.Cmp(most) <= 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(config.Child("memory", "guest"), m.Guest.String(),
		fmt.Sprintf("must not exceed %s, the maximum of machine type %s; use a larger machine type", most.String(), p.MachineType))}
}

// resolveVolumes reads the root volume and the data volumes. Without a volume, the root volume is
// the storage of the machine type.
func (p *pool) resolveVolumes(d *delegate) field.ErrorList {
	var errs field.ErrorList

	switch {
	case p.Volume != nil:
		p.root, errs = d.volumeOf("", p.Volume.Type, p.Volume.Size, p.Volume.Encrypted, p.path.Child("volume"))
	case p.machineType != nil && p.machineType.Storage != nil && p.machineType.Storage.StorageSize != nil:
		p.root = volume{class: nonEmpty(p.machineType.Storage.Class), size: *p.machineType.Storage.StorageSize}
	default:
		errs = append(errs, field.Required(p.path.Child("volume"), "set type and size of the root volume; the machine type has no storage"))
	}

	for i, given := range p.DataVolumes {
		v, invalid := d.volumeOf(given.Name, given.Type, given.Size, given.Encrypted, p.path.Child("dataVolumes").Index(i))
		p.data, errs = append(p.data, v), append(errs, invalid...)
	}

	return errs
}

// volumeOf resolves the type of a volume to a storage class of the provider cluster.
func (d *delegate) volumeOf(name string, kind *string, size string, encrypted *bool, path *field.Path) (volume, field.ErrorList) {
	var errs field.ErrorList

	v := volume{name: name}

	quantity, err := resource.ParseQuantity(size)
	if err != nil || quantity.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("size"), size, "must be a positive quantity, such as 20Gi"))
	}

	v.size = quantity

	if kind != nil {
		types := d.cluster.CloudProfile.Spec.VolumeTypes

		i := slices.IndexFunc(types, func(t gardencorev1beta1.VolumeType) bool { return t.Name == *kind })
		if i < 0 {
			return v, append(errs, field.NotFound(path.Child("type"), *kind))
		}

		v.class = nonEmpty(types[i].Class)
	}

	if ptr.Deref(encrypted, false) && !d.encrypts(v.class) {
		errs = append(errs, field.Forbidden(path.Child("encrypted"),
			"the volume has no storage class that volumeClasses of the CloudProfile marks as encrypted: true; use another type, or remove the field"))
	}

	return v, errs
}

// encrypts reports whether a storage class encrypts its volumes, according to the CloudProfile.
func (d *delegate) encrypts(class *string) bool {
	return class != nil && slices.ContainsFunc(d.profile.VolumeClasses, func(c api.VolumeClass) bool { return c.Name == *class && c.Encrypted })
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}

	return &text
}

// resolveImage finds the image in the CloudProfile, or, if it was removed there, among those that
// the Worker already uses.
func (p *pool) resolveImage(d *delegate) field.ErrorList {
	definitions := d.cluster.CloudProfile.Spec.MachineCapabilities

	if p.image = imageInProfile(&d.profile, p, definitions); p.image == nil {
		p.image = imageInStatus(&d.status, p, definitions)
	}

	if p.image != nil {
		if p.image.Source.ContainerDisk != nil && p.Volume != nil && ptr.Deref(p.Volume.Encrypted, false) {
			return field.ErrorList{field.Forbidden(p.path.Child("volume", "encrypted"), "the image is a container disk: the machine has no root volume; remove the field, or use another image")}
		}

		return nil
	}

	return field.ErrorList{field.Invalid(p.path.Child("machine", "image"), p.MachineImage.Name+" "+p.MachineImage.Version, fmt.Sprintf(
		"the providerConfig of the CloudProfile has no source for this image and version that fits architecture %s and machine type %s; use another version, or add the source to the CloudProfile", p.architecture, p.MachineType))}
}
