// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// smallestGuest is the smallest memory that can be intended: a quantity without a unit means bytes.
const smallestGuest = 1 << 20

// plausibleCPUs is the number of virtual CPUs of a large host.
const plausibleCPUs = 256

// plausibleCPULimit is the least CPU limit with which a guest boots within minutes.
const plausibleCPULimit = "100m"

// plausible bounds a size. Outside of the bounds, a mistyped unit is more likely than such a
// machine. The bounds are text, because a resource.Quantity must not be shared between goroutines:
// its String method stores the text in the Quantity.
type plausible struct {
	least, most string
	// effect is the effect of a smaller size.
	effect string
	remedy string
}

var (
	plausibleMemory = plausible{
		least:  "512Mi",
		most:   "2Ti",
		effect: "too little for an operating system with a kubelet",
		remedy: "check the unit, for example 8Gi",
	}
	plausibleDisk = plausible{
		least:  "1Gi",
		most:   "8Ti",
		effect: "too small for a node image",
		remedy: "check the unit, for example 20Gi",
	}
)

// validateMemory validates the size of the guest's memory. KubeVirt accepts a VirtualMachine without any,
// but never starts it.
func validateMemory(spec *v1alpha1.ProviderSpec, path *field.Path) field.ErrorList {
	guest, request, limit := memoryOf(spec)

	switch size := guest.or(request).or(limit); {
	case size.Quantity != nil:
		return slices.Concat(
			refuse(size.path, size.Value() < smallestGuest, size.String(), "must be at least 1Mi; write the unit, for example 8Gi"),
			refuse(guest.path, guest.less(request), guest.String(),
				"must not be less than "+request.inField()+"; the guest could not use the memory that its pod requests"),
			refuse(guest.path, limit.less(guest), guest.String(),
				"must not exceed "+limit.inField()+"; the guest would be killed when it uses its memory"),
		)
	case spec.VirtualMachineTemplate != nil && spec.VirtualMachineTemplate.Spec.Instancetype != nil:
		return nil
	default:
		return field.ErrorList{field.Required(path, "set the guest's memory, for example 8Gi")}
	}
}

// amount is a quantity in a spec, and its field. The zero value is not set.
type amount struct {
	*resource.Quantity

	path *field.Path
}

func (a amount) or(b amount) amount {
	if a.Quantity != nil {
		return a
	}

	return b
}

// less reports whether both amounts are set, and a is less than b.
func (a amount) less(b amount) bool {
	return a.Quantity != nil && b.Quantity != nil && a.Cmp(*b.Quantity) < 0
}

// below and above report whether the amount is set, and less or more than a bound.
func (a amount) below(bound string) bool {
	return a.Quantity != nil && a.Cmp(resource.MustParse(bound)) < 0
}

func (a amount) above(bound string) bool {
	return a.Quantity != nil && a.Cmp(resource.MustParse(bound)) > 0
}

func (a amount) inField() string {
	return fmt.Sprintf("%s (%s)", a.path, a)
}

// domainFields are the fields of a KubeVirt domain that the ProviderSpec has, too.
type domainFields struct {
	cpu       kubevirtv1.CPU
	memory    kubevirtv1.Memory
	resources kubevirtv1.ResourceRequirements
	path      *field.Path
}

// domains returns the fields of a KubeVirt domain from the template and from the ProviderSpec. The
// template takes precedence, since it is merged over the ProviderSpec.
func domains(spec *v1alpha1.ProviderSpec) []domainFields {
	t, path := instanceTemplate(spec)
	d := t.Spec.Domain

	return []domainFields{
		{ptr.Deref(d.CPU, kubevirtv1.CPU{}), ptr.Deref(d.Memory, kubevirtv1.Memory{}), d.Resources, path.Child("spec", "domain")},
		{ptr.Deref(spec.CPU, kubevirtv1.CPU{}), ptr.Deref(spec.Memory, kubevirtv1.Memory{}), spec.Resources, root()},
	}
}

// memoryOf returns the guest's memory, and the request and the limit of its pod.
func memoryOf(spec *v1alpha1.ProviderSpec) (guest, request, limit amount) {
	parts := domains(spec)
	for _, d := range parts {
		guest = guest.or(amount{d.memory.Guest, d.path.Child("memory", "guest")})
	}

	request, limit = podResource(corev1.ResourceMemory, parts...)

	return guest, request, limit
}

// podResource returns the request and the limit of the machine's pod for a resource.
func podResource(name corev1.ResourceName, parts ...domainFields) (request, limit amount) {
	for _, d := range parts {
		request = request.or(amountIn(d.resources.Requests, name, d.path.Child("resources", "requests")))
		limit = limit.or(amountIn(d.resources.Limits, name, d.path.Child("resources", "limits")))
	}

	return request, limit
}

func amountIn(list corev1.ResourceList, name corev1.ResourceName, path *field.Path) amount {
	if quantity, ok := list[name]; ok {
		return amount{&quantity, path.Key(string(name))}
	}

	return amount{}
}

// VirtualCPUs returns the number of the guest's virtual CPUs, and the field that sets it. Sockets,
// cores and threads are multiplied, and default to one. Without any of them, KubeVirt uses the CPU
// limit or request, rounded up.
func VirtualCPUs(spec *v1alpha1.ProviderSpec) (int64, *field.Path) {
	var (
		parts = domains(spec)
		count = int64(1)
		path  *field.Path
	)

	for _, factor := range []func(kubevirtv1.CPU) uint32{
		func(c kubevirtv1.CPU) uint32 { return c.Sockets },
		func(c kubevirtv1.CPU) uint32 { return c.Cores },
		func(c kubevirtv1.CPU) uint32 { return c.Threads },
	} {
		if i := slices.IndexFunc(parts, func(d domainFields) bool { return factor(d.cpu) > 0 }); i >= 0 {
			count = multiply(count, factor(parts[i].cpu))
			path = cmp.Or(path, parts[i].path.Child("cpu"))
		}
	}

	if path != nil {
		return count, path
	}

	request, limit := podResource(corev1.ResourceCPU, parts...)
	if size := limit.or(request); size.Quantity != nil {
		return size.Value(), size.path
	}

	return count, root().Child("cpu")
}

// multiply returns the largest number instead of one that overflows.
func multiply(a int64, b uint32) int64 {
	if a > math.MaxInt64/int64(b) {
		return math.MaxInt64
	}

	return a * int64(b)
}

// sizeWarnings returns warnings about sizes that KubeVirt accepts, but that are probably typing
// errors.
func sizeWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	guest, request, limit := memoryOf(spec)
	claim, path := claimOf(&spec.RootVolume.DataVolume, root().Child("rootVolume"))
	warnings := slices.Concat(
		plausibleMemory.warnings(guest.or(request).or(limit)),
		cpuWarnings(spec),
		plausibleDisk.warnings(amountIn(claim.Resources.Requests, corev1.ResourceStorage, path.Child("resources", "requests"))),
	)

	if image := spec.GoldenImage; image != nil {
		warnings = append(warnings, plausibleDisk.warnings(amount{image.Size, root().Child("goldenImage", "size")})...)
	}

	return warnings
}

func (p plausible) warnings(size amount) []Warning {
	return append(
		warnIf(size.path, size.below(p.least), fmt.Sprintf("is %s, which is less than %s: %s; %s", size, p.least, p.effect, p.remedy)),
		warnIf(size.path, size.above(p.most), fmt.Sprintf("is %s, which is more than %s; %s", size, p.most, p.remedy))...)
}

// cpuWarnings checks the number of the guest's virtual CPUs, and the CPU limit of its pod.
func cpuWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	count, path := VirtualCPUs(spec)
	warnings := warnIf(path, count > plausibleCPUs, fmt.Sprintf(
		"is %d virtual CPUs, which is more than %d; check the number: sockets, cores and threads are multiplied", count, plausibleCPUs))

	for _, d := range domains(spec) {
		_, limit := podResource(corev1.ResourceCPU, d)
		warnings = append(warnings, warnIf(limit.path, limit.below(plausibleCPULimit), fmt.Sprintf(
			"is %s, which is less than %s: the guest would take very long to boot; check the unit, for example 4", limit, plausibleCPULimit))...)
	}

	return warnings
}
