// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// inShoot replaces the fields of a ProviderSpec in errors with those of the Shoot or of the
// CloudProfile from which they come. zone is the index of the zone.
func (p *Pool) inShoot(errs field.ErrorList, zone int) field.ErrorList {
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
func (p *Pool) origins(zone int) []origin {
	var (
		config      = p.path.Child("providerConfig")
		machineType = profilePath().Child("spec", "machineTypes").Key(p.MachineType)
		extended    = profilePath().Child("spec", "providerConfig", "machineTypes").Key(p.MachineType)
		devices     = "virtualMachineTemplate.spec.template.spec.domain.devices."
		image       = profilePath().Child("spec", "providerConfig", "machineImages").Key(p.MachineImage.Name).Child("versions").Key(p.MachineImage.Version)
	)

	origins := []origin{
		{"region", "spec.region"},
		{"zone", p.path.Child("zones").Index(zone).String()},
		{"tags", "status.technicalID"},
		{"resources.overcommitGuestOverhead", config.Child("overcommitGuestOverhead").String()},
		{"resources.limits", extended.Child("limits").String()},
		{"resources.requests[cpu]", machineType.Child("cpu").String()},
		{"resources.requests[memory]", machineType.Child("memory").String()},
		{"resources", machineType.String()},
		// Users cannot set these fields of the template; they are those of the machine type.
		{"virtualMachineTemplate.spec.instancetype", extended.Child("instancetype").String()},
		{"virtualMachineTemplate.spec.preference", extended.Child("preference").String()},
		{devices + "gpus", extended.Child("gpus").String()},
		{devices + "hostDevices", extended.Child("hostDevices").String()},
		{"virtualMachineTemplate.spec.template.spec.resourceClaims", extended.Child("resourceClaims").String()},
		{"rootVolume.storage.resources.requests[storage]", p.path.Child("volume", "size").String()},
		{"rootVolume.storage", p.path.Child("volume").String()},
		{"rootVolume.source.http.url", image.Child(p.urlField()).String()},
		{"rootVolume", image.String()},
		{"goldenImage", image.String()},
		{"cloudInit", image.Child("cloudInit").String()},
		{"sshKeys", "spec.provider.workersSettings.sshAccess"},
	}

	for i := range p.Data {
		volume := field.NewPath("additionalVolumes").Index(i)
		origins = append(origins,
			origin{volume.Child("dataVolume", "storage", "resources", "requests").Key("storage").String(), p.path.Child("dataVolumes").Index(i).Child("size").String()},
			origin{volume.String(), p.path.Child("dataVolumes").Index(i).String()},
		)
	}

	origins = append(origins, networkOrigins(p.settings)...)

	// cpu, memory, devices, dnsPolicy, dnsConfig and virtualMachineTemplate have the same names.
	return append(origins, origin{"", config.String() + "."})
}

// networkOrigins returns the origins of networks. Those that the Infrastructure controller creates for
// tenantNetworks begin with the technical ID, and come before the shared ones.
func networkOrigins(settings *Settings) []origin {
	var (
		networks = field.NewPath("spec", "provider", "infrastructureConfig", "networks")
		tenant   int
		origins  []origin
	)

	for i, n := range settings.Networks {
		inShoot := networks.Child("sharedNetworks").Index(i - tenant)
		if strings.HasPrefix(path.Base(n.Name), settings.TechnicalID+"-") {
			inShoot = networks.Child("tenantNetworks").Index(i)
			tenant++
		}

		origins = append(origins, origin{field.NewPath("networks").Index(i).String(), inShoot.String()})
	}

	pod := field.NewPath("networks").Index(len(settings.Networks))

	return append(origins,
		origin{pod.Child("pod").String(), networks.Child("pod").String()},
		origin{pod.String(), networks.Child("pod").String()},
		origin{"networks", networks.String()})
}

// urlField returns the field of an image that has its HTTP address.
func (p *Pool) urlField() string {
	if p.Image.Source.SourceURL != "" {
		return "sourceURL"
	}

	return "source.http.url"
}

// profilePath is the path of fields of the CloudProfile in messages for users of Shoots.
func profilePath() *field.Path { return field.NewPath("CloudProfile") }
