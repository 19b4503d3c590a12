package worker

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// inShoot replaces the fields of a ProviderSpec in errors with those of the Shoot or of the
// CloudProfile from which they come. zone is the index of the zone.
func (p *pool) inShoot(errs field.ErrorList, zone int) field.ErrorList {
	origins := p.origins(zone)

	for _, err := range errs {
		for _, o := range origins {
			if rest, found := strings.CutPrefix(err.Field, "providerSpec."+o.field); found {
				err.Field = o.inShoot + rest

				break
			}
		}
	}

	return errs
}

// origin is where a field of the ProviderSpec comes from.
type origin struct {
	field, inShoot string
}

// origins returns the origins of all fields; the first one whose field is a prefix applies.
func (p *pool) origins(zone int) []origin {
	var (
		config      = p.path.Child("providerConfig")
		machineType = profilePath().Child("spec", "machineTypes").Key(p.MachineType)
		image       = profilePath().Child("spec", "providerConfig", "machineImages").Key(p.MachineImage.Name).Child("versions").Key(p.MachineImage.Version)
	)

	origins := []origin{
		{"region", "spec.region"},
		{"zone", p.path.Child("zones").Index(zone).String()},
		{"tags", "status.technicalID"},
		{"resources.overcommitGuestOverhead", config.Child("overcommitGuestOverhead").String()},
		{"resources.limits", profilePath().Child("spec", "providerConfig", "machineTypes").Key(p.MachineType).Child("limits").String()},
		{"resources", machineType.String()},
		{"rootVolume.storage.resources.requests[storage]", p.path.Child("volume", "size").String()},
		{"rootVolume.storage", p.path.Child("volume").String()},
		{"rootVolume", image.String()},
		{"goldenImage", image.String()},
		{"cloudInit", image.Child("cloudInit").String()},
		{"networks", "spec.provider.infrastructureConfig.networks"},
		{"sshKeys", "spec.provider.workersSettings.sshAccess"},
	}

	for i := range p.data {
		volume := field.NewPath("additionalVolumes").Index(i)
		origins = append(origins,
			origin{volume.Child("dataVolume", "storage", "resources", "requests").Key("storage").String(), p.path.Child("dataVolumes").Index(i).Child("size").String()},
			origin{volume.String(), p.path.Child("dataVolumes").Index(i).String()},
		)
	}

	// cpu, memory, devices, dnsPolicy, dnsConfig and virtualMachineTemplate have the same names.
	return append(origins, origin{"", config.String() + "."})
}
