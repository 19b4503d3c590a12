// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// validateDomain refuses settings of the template's domain that KubeVirt accepts in a VirtualMachine, but
// refuses when it starts the VirtualMachine.
func validateDomain(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	d := &vmi.Domain
	errs := slices.Concat(
		validateCPU(d.CPU, path.Child("cpu")),
		validateResources(d.Resources, path.Child("resources")),
		validateHyperV(d.Features, path.Child("features")),
		validateWatchdog(vmi, path.Child("devices", "watchdog")),
	)

	for i, gpu := range d.Devices.GPUs {
		errs = append(errs, validateDeviceName(gpu.DeviceName, path.Child("devices", "gpus").Index(i).Child("deviceName"))...)
	}

	for i, device := range d.Devices.HostDevices {
		errs = append(errs, validateDeviceName(device.DeviceName, path.Child("devices", "hostDevices").Index(i).Child("deviceName"))...)
	}

	return errs
}

// validateCPU validates the names that KubeVirt turns into labels, by which it selects nodes.
func validateCPU(spec *kubevirtv1.CPU, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	c := ptr.Deref(spec, kubevirtv1.CPU{})
	if c.Model != "" {
		errs = validateLabelPart(c.Model, path.Child("model"))
	}

	for i, feature := range c.Features {
		errs = append(errs, validateLabelPart(feature.Name, path.Child("features").Index(i).Child("name"))...)
	}

	return errs
}

func validateLabelPart(name string, path *field.Path) field.ErrorList {
	wrong := len(validation.IsQualifiedName(name)) > 0 || strings.Contains(name, "/")

	return refuse(path, wrong, name, "must be a name of libvirt: letters and digits, with -_. in between")
}

// validateResources applies the rules for containers, to which KubeVirt copies the resources. KubeVirt
// validates CPU and memory itself.
func validateResources(r kubevirtv1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := append(validateResourceList(r.Requests, path.Child("requests")), validateResourceList(r.Limits, path.Child("limits"))...)

	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		at := path.Child("requests").Key(string(name))
		request := r.Requests[name]
		limit, limited := r.Limits[name]

		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory:
		case strings.Contains(string(name), "/") || isHugePages(name):
			errs = append(errs, refuse(at, !limited || limit.Cmp(request) != 0, request.String(),
				"must be equal to the limit, since such a resource cannot be overcommitted; set only the limit")...)
		default:
			errs = append(errs, refuse(at, limited && request.Cmp(limit) > 0, request.String(), "must not exceed the limit ("+limit.String()+")")...)
		}
	}

	return errs
}

func validateResourceList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		at := path.Key(string(name))

		switch extended := strings.Contains(string(name), "/"); {
		case amount.Sign() < 0:
			errs = append(errs, field.Invalid(at, amount.String(), "must not be negative"))
		case isHugePages(name):
			errs = append(errs, validateHugePages(name, amount, at)...)
		case extended && amount.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(at, amount.String(), "must be an integer"))
		case extended:
			errs = append(errs, validateDeviceName(string(name), at)...)
		case !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name):
			errs = append(errs, field.Invalid(at, string(name),
				"must be cpu, memory, ephemeral-storage, or the resource name of a device, for example example.com/gpu"))
		}
	}

	return errs
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// validateHugePages validates an amount by the page size, which is part of the resource's name.
func validateHugePages(name corev1.ResourceName, amount resource.Quantity, path *field.Path) field.ErrorList {
	var size resource.Quantity

	// Parsing an excessive quantity would take hours.
	if text := strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix); !quantity.Excessive(text) {
		size, _ = resource.ParseQuantity(text)
	}

	return refuse(path, size.Value() <= 0 || amount.Value()%size.Value() != 0, amount.String(),
		"must be a multiple of the page size, which is the end of the resource's name, for example hugepages-2Mi")
}

// validateDeviceName validates the name of an extended resource. KubeVirt refuses an empty one.
func validateDeviceName(name string, path *field.Path) field.ErrorList {
	wrong := len(validation.IsQualifiedName(name)) > 0 || !strings.Contains(name, "/")

	return refuse(path, name != "" && wrong, name, "must be the resource name of a device plugin, for example example.com/gpu")
}

// validateHyperV validates features that depend on each other (KubeVirt, pkg/virt-api/webhooks/hyperv.go).
// KubeVirt enables a dependency that is not set.
func validateHyperV(f *kubevirtv1.Features, path *field.Path) field.ErrorList {
	if f == nil || f.Hyperv == nil {
		return nil
	}

	h := f.Hyperv
	errs := forbid(path.Child("hypervPassthrough"), f.HypervPassthrough != nil, "set either hyperv or hypervPassthrough")

	for _, feature := range []struct {
		name, needs string
		enabled     bool
		state       *kubevirtv1.FeatureState
	}{
		{"evmcs", "vapic", enabled(h.EVMCS), h.VAPIC},
		{"ipi", "vpindex", enabled(h.IPI), h.VPIndex},
		{"tlbflush", "vpindex", h.TLBFlush != nil && enabled(&h.TLBFlush.FeatureState), h.VPIndex},
		{"synic", "vpindex", enabled(h.SyNIC), h.VPIndex},
		{"synictimer", "synic", h.SyNICTimer != nil && enabled(&h.SyNICTimer.FeatureState), h.SyNIC},
	} {
		errs = append(errs, forbid(path.Child("hyperv", feature.name), feature.enabled && feature.state != nil && !enabled(feature.state),
			"it needs "+feature.needs+", which is disabled; enable that, too")...)
	}

	return errs
}

// enabled reports whether a feature is enabled, which is the default of a feature that is set.
func enabled(state *kubevirtv1.FeatureState) bool {
	return state != nil && ptr.Deref(state.Enabled, true)
}

// validateWatchdog validates the device by the architecture, which defaults to amd64.
func validateWatchdog(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	w := ptr.Deref(vmi.Domain.Devices.Watchdog, kubevirtv1.Watchdog{})
	if w.Diag288 != nil && vmi.Architecture != "s390x" {
		return field.ErrorList{field.Forbidden(path.Child("diag288"),
			"it exists only on s390x; use i6300esb, or set architecture: s390x in the template")}
	}

	return forbid(path.Child("i6300esb"), w.I6300ESB != nil && vmi.Architecture != "" && vmi.Architecture != "amd64",
		"it exists only on amd64, not on "+vmi.Architecture+"; remove it")
}
