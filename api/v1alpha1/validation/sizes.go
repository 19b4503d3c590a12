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

// plausible bounds a size. Outside of it, a mistyped unit is more likely than such a machine.
type plausible struct {
	least, most string
	// tooLittle says what does not work with less.
	tooLittle string
	remedy    string
}

var (
	plausibleMemory = plausible{"512Mi", "2Ti", "an operating system with a kubelet does not run in it", "check the unit, for example 8Gi"}
	plausibleDisk   = plausible{"1Gi", "8Ti", "no node image fits", "check the unit, for example 20Gi"}
)

const (
	// plausibleCPUs are as many virtual CPUs as large hosts have.
	plausibleCPUs = 256
	// plausibleCPULimit is less than what the guest needs to boot within minutes.
	plausibleCPULimit = "100m"
)

// sizeWarnings are about sizes that KubeVirt accepts, and that are probably typing errors.
func sizeWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	guest, request, limit := memoryOf(spec, root())
	warnings := plausibleMemory.warnings(guest.or(request).or(limit))

	warnings = append(warnings, cpuWarnings(spec)...)
	warnings = append(warnings, plausibleDisk.warnings(rootDisk(spec))...)

	if image := spec.GoldenImage; image != nil && image.Size != nil {
		warnings = append(warnings, plausibleDisk.warnings(amount{image.Size, root().Child("goldenImage", "size")})...)
	}

	return warnings
}

func (p plausible) warnings(size amount) []Warning {
	if size.Quantity == nil {
		return nil
	}

	switch {
	case size.Cmp(resource.MustParse(p.least)) < 0:
		return []Warning{warning(size.path, fmt.Sprintf("is %s, which is less than %s: %s; %s", size, p.least, p.tooLittle, p.remedy))}
	case size.Cmp(resource.MustParse(p.most)) > 0:
		return []Warning{warning(size.path, fmt.Sprintf("is %s, which is more than %s; %s", size, p.most, p.remedy))}
	}

	return nil
}

// rootDisk returns the root volume's size, if it is given.
func rootDisk(spec *v1alpha1.ProviderSpec) amount {
	claim := "storage"
	if spec.RootVolume.PVC != nil {
		claim = "pvc"
	}

	return amount{spec.RootVolume.Size(), root().Child("rootVolume", claim, "resources", "requests").Key(string(corev1.ResourceStorage))}
}

// cpuWarnings judges both the guest's virtual CPUs, and how much CPU its pod may use.
func cpuWarnings(spec *v1alpha1.ProviderSpec) []Warning {
	var warnings []Warning

	if count, path := VirtualCPUs(spec); count > plausibleCPUs {
		warnings = append(warnings, warning(path, fmt.Sprintf(
			"is %d virtual CPUs, which is more than %d; check the number: sockets, cores and threads are multiplied", count, plausibleCPUs)))
	}

	for _, d := range domainsOf(spec) {
		if limit, given := d.resources.Limits[corev1.ResourceCPU]; given && limit.Cmp(resource.MustParse(plausibleCPULimit)) < 0 {
			warnings = append(warnings, warning(d.path.Child("resources", "limits").Key(string(corev1.ResourceCPU)), fmt.Sprintf(
				"is %s, which is less than %s: the guest would take very long to boot; check the unit, for example 4", limit.String(), plausibleCPULimit)))
		}
	}

	return warnings
}

// domainOf is a part of a spec that has the fields of a KubeVirt domain.
type domainOf struct {
	cpu       kubevirtv1.CPU
	resources kubevirtv1.ResourceRequirements
	path      *field.Path
}

// domainsOf returns the parts of a spec that have the fields of a KubeVirt domain. The first one wins.
func domainsOf(spec *v1alpha1.ProviderSpec) []domainOf {
	parts := []domainOf{{ptr.Deref(spec.CPU, kubevirtv1.CPU{}), spec.Resources, root()}}

	if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil {
		d := t.Spec.Template.Spec.Domain
		path := root().Child("virtualMachineTemplate", "spec", "template", "spec", "domain")
		parts = append([]domainOf{{ptr.Deref(d.CPU, kubevirtv1.CPU{}), d.Resources, path}}, parts...)
	}

	return parts
}

// VirtualCPUs returns how many virtual CPUs KubeVirt gives the guest, and the field that says so: of sockets, cores and threads each,
// one is the default; without any of them, a limit or request counts, rounded up.
func VirtualCPUs(spec *v1alpha1.ProviderSpec) (int64, *field.Path) {
	var (
		parts = domainsOf(spec)
		count = int64(1)
		path  *field.Path
	)

	for _, of := range []func(kubevirtv1.CPU) uint32{
		func(c kubevirtv1.CPU) uint32 { return c.Sockets },
		func(c kubevirtv1.CPU) uint32 { return c.Cores },
		func(c kubevirtv1.CPU) uint32 { return c.Threads },
	} {
		if i := slices.IndexFunc(parts, func(d domainOf) bool { return of(d.cpu) > 0 }); i >= 0 {
			count = multiply(count, of(parts[i].cpu))
			path = cmp.Or(path, parts[i].path.Child("cpu"))
		}
	}

	if path != nil {
		return count, path
	}

	if quantity := cpuQuantity(parts); quantity.Quantity != nil {
		return quantity.Value(), quantity.path
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

// cpuQuantity returns the limit, or else the request, of the pod's CPU.
func cpuQuantity(parts []domainOf) amount {
	for _, of := range []struct {
		name string
		list func(domainOf) corev1.ResourceList
	}{
		{"limits", func(d domainOf) corev1.ResourceList { return d.resources.Limits }},
		{"requests", func(d domainOf) corev1.ResourceList { return d.resources.Requests }},
	} {
		for _, d := range parts {
			if quantity, given := of.list(d)[corev1.ResourceCPU]; given {
				return amount{&quantity, d.path.Child("resources", of.name).Key(string(corev1.ResourceCPU))}
			}
		}
	}

	return amount{}
}
