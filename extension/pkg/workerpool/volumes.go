// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// resolveVolumes reads the root volume and the data volumes. Without a volume, the root volume is
// the storage of the machine type. A machine with a container disk needs none.
func (p *Pool) resolveVolumes() field.ErrorList {
	var errs field.ErrorList

	switch {
	case p.Volume != nil:
		p.Root, errs = p.volumeOf("", p.Volume.Type, p.Volume.Size, p.Volume.Encrypted, p.path.Child("volume"))
	case p.Type != nil && p.Type.Storage != nil && p.Type.Storage.StorageSize != nil:
		p.Root = Volume{Class: nonEmpty(p.Type.Storage.Class), Size: *p.Type.Storage.StorageSize}
	case p.Image != nil && p.Image.Source.ContainerDisk != nil:
	default:
		errs = append(errs, field.Required(p.path.Child("volume"), "set type and size of the root volume; the machine type has no storage"))
	}

	for i, spec := range p.DataVolumes {
		v, invalid := p.volumeOf(spec.Name, spec.Type, spec.Size, spec.Encrypted, p.path.Child("dataVolumes").Index(i))
		p.Data, errs = append(p.Data, v), append(errs, invalid...)
	}

	return errs
}

// volumeOf resolves the type of a volume to a storage class of the provider cluster.
func (p *Pool) volumeOf(name string, kind *string, size string, encrypted *bool, path *field.Path) (Volume, field.ErrorList) {
	var errs field.ErrorList

	v := Volume{Name: name, Type: kind}

	quantity, err := resource.ParseQuantity(size)
	if err != nil || quantity.Sign() <= 0 {
		errs = append(errs, field.Invalid(path.Child("size"), size, "must be a positive quantity, such as 20Gi"))
	}

	v.Size = quantity

	if kind != nil {
		types := p.settings.Profile.VolumeTypes

		i := slices.IndexFunc(types, func(t gardencorev1beta1.VolumeType) bool { return t.Name == *kind })
		if i < 0 {
			return v, append(errs, field.NotFound(path.Child("type"), *kind))
		}

		v.Class = nonEmpty(types[i].Class)
	}

	if ptr.Deref(encrypted, false) && !p.settings.encrypts(v.Class) {
		errs = append(errs, field.Forbidden(path.Child("encrypted"),
			"the volume has no storage class that volumeClasses of the CloudProfile marks as encrypted: true; use another type, or remove the field"))
	}

	return v, errs
}

// encrypts reports whether a storage class encrypts its volumes, according to the CloudProfile.
func (s *Settings) encrypts(class *string) bool {
	return class != nil && slices.ContainsFunc(s.ProfileConfig.VolumeClasses, func(c api.VolumeClass) bool { return c.Name == *class && c.Encrypted })
}

func nonEmpty(text string) *string {
	if text == "" {
		return nil
	}

	return &text
}
