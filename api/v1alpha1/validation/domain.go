package validation

import (
	"fmt"
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

// domain judges what of the template's domain KubeVirt accepts in a VirtualMachine, and refuses when it starts it.
func domain(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	d := &vmi.Domain
	errs := cpu(d.CPU, path.Child("cpu"))
	errs = append(errs, resources(d.Resources, path.Child("resources"))...)
	errs = append(errs, hyperv(d.Features, path.Child("features"))...)
	errs = append(errs, watchdog(vmi, path.Child("devices", "watchdog"))...)

	for i, gpu := range d.Devices.GPUs {
		errs = append(errs, deviceName(gpu.DeviceName, path.Child("devices", "gpus").Index(i).Child("deviceName"))...)
	}

	for i, device := range d.Devices.HostDevices {
		errs = append(errs, deviceName(device.DeviceName, path.Child("devices", "hostDevices").Index(i).Child("deviceName"))...)
	}

	return errs
}

// cpu judges the names that KubeVirt makes labels of, by which it selects nodes.
func cpu(c *kubevirtv1.CPU, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}

	var errs field.ErrorList
	if c.Model != "" {
		errs = append(errs, labelPart(c.Model, path.Child("model"))...)
	}

	for i, feature := range c.Features {
		errs = append(errs, labelPart(feature.Name, path.Child("features").Index(i).Child("name"))...)
	}

	return errs
}

func labelPart(name string, path *field.Path) field.ErrorList {
	if msgs := validation.IsQualifiedName(name); len(msgs) > 0 || strings.Contains(name, "/") {
		return field.ErrorList{field.Invalid(path, name, "must be a name that libvirt knows: letters, digits and -_. in between")}
	}

	return nil
}

// resources follows the rules for containers, to which KubeVirt copies them. CPU and memory it judges itself.
func resources(r kubevirtv1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := resourceList(r.Requests, path.Child("requests"))
	errs = append(errs, resourceList(r.Limits, path.Child("limits"))...)

	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		exclusive := strings.Contains(string(name), "/") || isHugePages(name)

		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory:
		case exclusive && (!limited || limit.Cmp(request) != 0):
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				"must be equal to the limit of the same name: such a resource cannot be shared; set limits alone"))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), request.String(),
				"must not exceed the limit of the same name, "+limit.String()))
		}
	}

	return errs
}

func resourceList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]

		switch extended := strings.Contains(string(name), "/"); {
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must not be negative"))
		case isHugePages(name):
			errs = append(errs, hugePages(name, quantity, path.Key(string(name)))...)
		case extended && quantity.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.String(), "must be a whole number"))
		case extended:
			errs = append(errs, deviceName(string(name), path.Key(string(name)))...)
		case !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, name):
			errs = append(errs, field.Invalid(path.Key(string(name)), string(name),
				"must be cpu, memory, ephemeral-storage, or a device's resource name, for example example.com/gpu"))
		}
	}

	return errs
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// hugePages judges an amount of pages by their size, which is in the resource's name.
func hugePages(name corev1.ResourceName, amount resource.Quantity, path *field.Path) field.ErrorList {
	text := strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if quantity.Excessive(text) { // Parsing it would take hours.
		return field.ErrorList{field.Invalid(path, amount.String(), "has a page size that no host has; use hugepages-2Mi or hugepages-1Gi")}
	}

	size, err := resource.ParseQuantity(text)
	if err != nil || size.Value() <= 0 || amount.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(path, amount.String(),
			"must be a multiple of the size of a page, which is the end of the resource's name, as in hugepages-2Mi")}
	}

	return nil
}

// deviceName judges the name of an extended resource. An empty one is KubeVirt's to judge.
func deviceName(name string, path *field.Path) field.ErrorList {
	if msgs := validation.IsQualifiedName(name); name != "" && (len(msgs) > 0 || !strings.Contains(name, "/")) {
		return field.ErrorList{field.Invalid(path, name, "must be the resource name of a device plugin, for example example.com/gpu")}
	}

	return nil
}

// hyperv judges features that need each other (KubeVirt, pkg/virt-api/webhooks/hyperv.go). One that is not given, KubeVirt adds.
func hyperv(f *kubevirtv1.Features, path *field.Path) field.ErrorList {
	if f == nil || f.Hyperv == nil {
		return nil
	}

	var errs field.ErrorList
	if f.HypervPassthrough != nil {
		errs = append(errs, field.Forbidden(path.Child("hypervPassthrough"), "set either hyperv or hypervPassthrough"))
	}

	h := f.Hyperv
	for _, need := range []struct {
		name    string
		enabled bool
		needs   string
		state   *kubevirtv1.FeatureState
	}{
		{"evmcs", enabled(h.EVMCS), "vapic", h.VAPIC},
		{"ipi", enabled(h.IPI), "vpindex", h.VPIndex},
		{"tlbflush", h.TLBFlush != nil && enabled(&h.TLBFlush.FeatureState), "vpindex", h.VPIndex},
		{"synic", enabled(h.SyNIC), "vpindex", h.VPIndex},
		{"synictimer", h.SyNICTimer != nil && enabled(&h.SyNICTimer.FeatureState), "synic", h.SyNIC},
	} {
		if need.enabled && need.state != nil && !enabled(need.state) {
			errs = append(errs, field.Forbidden(path.Child("hyperv", need.name), fmt.Sprintf("it needs %s, which is disabled; enable that too", need.needs)))
		}
	}

	return errs
}

// enabled says whether a feature is on, which is the default of those that are given.
func enabled(state *kubevirtv1.FeatureState) bool {
	return state != nil && ptr.Deref(state.Enabled, true)
}

// watchdog judges the device by the architecture, which it must be given with, unless it is the one of amd64.
func watchdog(vmi *kubevirtv1.VirtualMachineInstanceSpec, path *field.Path) field.ErrorList {
	w := vmi.Domain.Devices.Watchdog

	switch {
	case w == nil:
		return nil
	case w.Diag288 != nil && vmi.Architecture != "s390x":
		return field.ErrorList{field.Forbidden(path.Child("diag288"), "it exists on s390x only; use i6300esb, or say architecture: s390x in the template")}
	case w.I6300ESB != nil && vmi.Architecture != "" && vmi.Architecture != "amd64":
		return field.ErrorList{field.Forbidden(path.Child("i6300esb"), "it exists on amd64 only, not on "+vmi.Architecture+"; remove it")}
	}

	return nil
}
