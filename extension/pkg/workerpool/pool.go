// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package workerpool turns a worker pool of a Shoot into the ProviderSpecs of its machines, and
// reports errors with the fields of the Shoot and the CloudProfile. The Worker controller generates
// MachineClasses from them; the admission component refuses Shoots for which there would be none, and the
// Infrastructure controller checks that the provider cluster can run them. It must not send requests.
package workerpool

import (
	"fmt"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// Settings are the settings that the pools of a Shoot share.
type Settings struct {
	// TechnicalID is status.technicalID of the Shoot.
	TechnicalID string
	// UID is status.uid of the Shoot; empty if it is not known.
	UID string
	// Region is spec.region of the Shoot.
	Region string
	// SSHPublicKey is the key for SSH access to the machines; empty if SSH access is disabled.
	SSHPublicKey []byte
	// PodNetwork is the connection of the machines to the pod network; nil for a bridge.
	PodNetwork *api.PodNetwork
	// EvacuationDenied is set if the driver cannot evacuate new machines, although it runs with --evacuation.
	EvacuationDenied bool
	// Evacuation is set if the driver runs with --evacuation.
	Evacuation bool
	// Networks are the networks of the machines.
	Networks []api.NetworkStatus
	// Profile and ProfileConfig are the CloudProfile, and its decoded providerConfig.
	Profile       *gardencorev1beta1.CloudProfileSpec
	ProfileConfig *api.CloudProfileConfig
	// ImagesInUse are images that the pools can use even if they were removed from the CloudProfile.
	ImagesInUse []api.MachineImage
}

// Pool is a worker pool with the parts of the CloudProfile that it refers to.
type Pool struct {
	extensionsv1alpha1.WorkerPool

	// Config is the decoded providerConfig.
	Config api.WorkerConfig
	// GuestArchitecture is the architecture of the pool, with the default.
	GuestArchitecture string
	// Type is the machine type.
	Type *gardencorev1beta1.MachineType
	// TypeConfig is the extension of the machine type; empty if it has none.
	TypeConfig api.MachineType
	// Image is the image of the root volume.
	Image *api.MachineImage
	// Root and Data are the root volume and the data volumes.
	Root Volume
	Data []Volume

	settings *Settings
	path     *field.Path
}

// FromWorker returns the parts of a pool that gardenlet copies from the Shoot into the Worker, as far as
// MachineClasses and their size depend on them.
func FromWorker(w *gardencorev1beta1.Worker) extensionsv1alpha1.WorkerPool {
	pool := extensionsv1alpha1.WorkerPool{
		Name:           w.Name,
		Architecture:   w.Machine.Architecture,
		MachineType:    w.Machine.Type,
		ProviderConfig: w.ProviderConfig,
		Zones:          w.Zones,
		Labels:         w.Labels,
		Annotations:    w.Annotations,
		Taints:         w.Taints,
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

// Volume is a volume of a worker pool.
type Volume struct {
	// Name is the name of a data volume; empty for the root volume.
	Name string
	// Type is the volume type of the CloudProfile; nil if the Shoot names none.
	Type *string
	// Class is the storage class; nil for the default of the provider cluster.
	Class *string
	Size  resource.Quantity
}

// Pool resolves the references of a pool. Errors name the fields of the Shoot, in which the pool has
// the path. A pool with errors cannot be used.
func (s *Settings) Pool(spec extensionsv1alpha1.WorkerPool, path *field.Path) (*Pool, field.ErrorList) {
	p := &Pool{
		WorkerPool:        spec,
		settings:          s,
		path:              path,
		GuestArchitecture: ptr.Deref(spec.Architecture, v1beta1constants.ArchitectureAMD64),
	}

	errs := api.Decode(spec.ProviderConfig, p.path.Child("providerConfig"), &p.Config)
	errs = append(errs, p.resolveMachineType()...)

	if len(p.Zones) == 0 {
		errs = append(errs, field.Required(p.path.Child("zones"), "set at least one zone of the region; without zones, the pool has no machines"))
	}

	if p.Type != nil {
		errs = append(errs, p.resolveImage()...)
		errs = append(errs, p.validateMachineType()...)
	}

	errs = append(errs, p.resolveVolumes()...)
	errs = append(errs, p.validateNameservers()...)

	return p, errs
}

func (p *Pool) resolveMachineType() field.ErrorList {
	if p.Type = v1beta1helper.FindMachineTypeByName(p.settings.Profile.MachineTypes, p.MachineType); p.Type == nil {
		return field.ErrorList{field.NotFound(p.path.Child("machine", "type"), p.MachineType)}
	}

	types := p.settings.ProfileConfig.MachineTypes
	if i := slices.IndexFunc(types, func(t api.MachineType) bool { return t.Name == p.MachineType }); i >= 0 {
		p.TypeConfig = types[i]
	}

	return nil
}

// validateNameservers requires nameservers if the DNS policy provides none: KubeVirt rejects such
// machines.
func (p *Pool) validateNameservers() field.ErrorList {
	if p.Config.DNSPolicy != corev1.DNSNone || p.Config.DNSConfig != nil && len(p.Config.DNSConfig.Nameservers) > 0 {
		return nil
	}

	return field.ErrorList{field.Required(p.path.Child("providerConfig", "dnsConfig", "nameservers"), "set at least one nameserver, or another dnsPolicy; None uses no nameserver of the provider cluster")}
}

// validateMachineType refuses what the machine type defines: CPU and memory of an instance type, and more memory
// than the operator offers. The provider cluster would reserve only the memory of the machine type.
// More CPUs are allowed, since the requests and limits of the machine type still bound their time.
func (p *Pool) validateMachineType() field.ErrorList {
	config := p.path.Child("providerConfig")

	if p.TypeConfig.Instancetype != nil {
		const defined = "the instance type of the machine type defines it; remove it, or use another machine type"

		var errs field.ErrorList
		if p.Config.CPU != nil {
			errs = append(errs, field.Forbidden(config.Child("cpu"), defined))
		}

		if p.Config.Memory != nil {
			errs = append(errs, field.Forbidden(config.Child("memory"), defined))
		}

		return errs
	}

	m := p.Config.Memory
	if m == nil || m.Guest == nil {
		return nil
	}

	most := p.Type.Memory
	if limits := p.TypeConfig.Limits; limits != nil && limits.Memory != nil && limits.Memory.Cmp(most) > 0 {
		most = *limits.Memory
	}

	if m.Guest.Cmp(most) <= 0 {
		return nil
	}

	return field.ErrorList{field.Invalid(config.Child("memory", "guest"), m.Guest.String(),
		fmt.Sprintf("must not exceed %s, the maximum of machine type %s; use a larger machine type", most.String(), p.MachineType))}
}
