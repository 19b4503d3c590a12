package preflight

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

const (
	// launcherOverhead is the memory that KubeVirt adds to each guest for its own processes, an I/O
	// thread and the video memory. Each virtual CPU takes cpuOverhead more, and page tables take
	// the requested memory, if any, divided by pageTables (pkg/virt-controller/services,
	// GetMemoryOverhead). Rare devices take more, which is not counted.
	launcherOverhead = (25 + 100 + 25 + 40 + 30 + 8 + 32) * mebibyte
	cpuOverhead      = 8 * mebibyte
	pageTables       = 512
	// armOverhead is for the firmware on arm64, deviceOverhead for passed-through devices,
	// pinnedOverhead for dedicated CPUs.
	armOverhead, deviceOverhead, pinnedOverhead = 128 * mebibyte, 1024 * mebibyte, 100 * mebibyte
	// defaultCPURequest, in thousandths, is the default in KubeVirt's configuration.
	defaultCPURequest = 100
	// limitRatio is the factor from memory request to memory limit that
	// KubeVirt uses where a quota requires limits.
	limitRatio = 2
)

var (
	// consoleRequests and consoleLimits are those of the container that logs the serial console. With
	// dedicated CPUs, it requests its limits.
	consoleRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("35M")}
	consoleLimits   = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15m"), corev1.ResourceMemory: resource.MustParse("60M")}
	// ephemeralStorage is the request for KubeVirt's own files.
	ephemeralStorage = resource.MustParse("50M")
)

// sizing holds the inputs, beside the VirtualMachine, that determine the size of a machine's pod.
type sizing struct {
	// allocation is the number of virtual CPUs that share one CPU, overcommit the guest's memory in
	// percent of the requested memory.
	allocation, overcommit int
	// cpuRequest is the request of machines that specify none; zero if it is calculated.
	cpuRequest resource.Quantity
	// overhead is the factor for the overhead of KubeVirt's processes.
	overhead float64
	// paged is set if page tables take a part of the guest's memory even if the VirtualMachine requests
	// none. Before 1.7, KubeVirt writes the calculated request into the instance (pkg/defaults).
	paged bool
	// instancetype specifies the size if the VirtualMachine does not.
	instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
}

// getSizing reads the instancetype of the class's machines, and the admin's configuration.
func (c *classChecker) getSizing(ctx context.Context) sizing {
	found, err := c.kubeVirt()
	if err != nil {
		found = &kubevirtv1.KubeVirt{} // Assume KubeVirt's defaults; checkKubeVirt reports the error.
	}

	s := sizingOf(&found.Spec.Configuration)
	s.paged = olderThan(found, "1.7")
	s.instancetype = c.getInstancetype(ctx)

	return s
}

// sizingOf returns the admin's configuration. KubeVirt's defaults are in pkg/virt-config.
func sizingOf(config *kubevirtv1.KubeVirtConfiguration) sizing {
	s := sizing{allocation: 10, overcommit: 100, overhead: 1}

	// KubeVirt cannot distinguish its default from the same value set explicitly (pkg/defaults).
	if given := config.CPURequest; given != nil && given.MilliValue() != defaultCPURequest {
		s.cpuRequest = *given
	}

	if ratio, err := strconv.ParseFloat(ptr.Deref(config.AdditionalGuestMemoryOverheadRatio, ""), 64); err == nil && ratio > 0 {
		s.overhead = ratio
	}

	developer := ptr.Deref(config.DeveloperConfiguration, kubevirtv1.DeveloperConfiguration{})

	if developer.CPUAllocationRatio > 0 {
		s.allocation = developer.CPUAllocationRatio
	}

	if developer.MemoryOvercommit > 0 {
		s.overcommit = developer.MemoryOvercommit
	}

	return s
}

// podResources returns the approximate requests and limits of a machine's pod.
func podResources(vm *kubevirtv1.VirtualMachine, s sizing) (requests, limits corev1.ResourceList) {
	var (
		domain    = &vm.Spec.Template.Spec.Domain
		given     = domain.Resources
		cpus      = virtualCPUs(domain, s.instancetype)
		paged     = given.Requests.Memory().Value()
		requested = cmp.Or(paged, given.Limits.Memory().Value(), guestMemory(domain, s.instancetype)*100/int64(s.overcommit))
	)

	if s.paged {
		paged = requested
	}

	overhead := overheadOfPod(&vm.Spec.Template.Spec, paged, cpus, s)

	if !given.OvercommitGuestOverhead {
		requested += overhead
	}

	requests = sum(corev1.ResourceList{
		corev1.ResourceCPU: cpuRequest(domain, cpus, s), corev1.ResourceMemory: binary(requested), corev1.ResourceEphemeralStorage: ephemeralStorage,
	}, consoleOf(domain))
	limits = corev1.ResourceList{corev1.ResourceCPU: decimal(cpus), corev1.ResourceMemory: binary(requested * limitRatio)}

	if limit, ok := given.Limits[corev1.ResourceCPU]; ok {
		limits[corev1.ResourceCPU] = limit
	}

	if limit, ok := given.Limits[corev1.ResourceMemory]; ok {
		limits[corev1.ResourceMemory] = binary(limit.Value() + overhead)
	}

	return requests, limits
}

// cpuRequest returns the CPU request for the virtual CPUs (pkg/defaults, and
// pkg/virt-controller/services).
func cpuRequest(domain *kubevirtv1.DomainSpec, cpus int64, s sizing) resource.Quantity {
	if pinned(domain) {
		return decimal(cpus)
	}

	for _, given := range []resource.Quantity{
		domain.Resources.Requests[corev1.ResourceCPU], domain.Resources.Limits[corev1.ResourceCPU], s.cpuRequest,
	} {
		if !given.IsZero() {
			return given
		}
	}

	return milli((cpus*1000 + int64(s.allocation) - 1) / int64(s.allocation))
}

// pinned reports whether the guest has dedicated CPUs.
func pinned(domain *kubevirtv1.DomainSpec) bool {
	return domain.CPU != nil && domain.CPU.DedicatedCPUPlacement
}

// consoleOf returns the requests of the container that logs the serial console.
func consoleOf(domain *kubevirtv1.DomainSpec) corev1.ResourceList {
	if pinned(domain) {
		return consoleLimits
	}

	return consoleRequests
}

// overheadOfPod returns the memory of KubeVirt's own processes, and of page tables for this much
// memory.
func overheadOfPod(instance *kubevirtv1.VirtualMachineInstanceSpec, paged, cpus int64, s sizing) int64 {
	overhead := paged/pageTables + launcherOverhead + cpus*cpuOverhead

	if instance.Architecture == "arm64" {
		overhead += armOverhead
	}

	if usesHostDevices(instance) {
		overhead += deviceOverhead
	}

	if pinned(&instance.Domain) {
		overhead += pinnedOverhead
	}

	overhead += addedOverhead(&instance.Domain)

	return int64(float64(overhead) * s.overhead)
}

// addedOverhead returns the overhead that the class adds. KubeVirt knows the field since 1.8.
func addedOverhead(domain *kubevirtv1.DomainSpec) int64 {
	memory := domain.Memory
	if memory == nil || memory.ReservedOverhead == nil || memory.ReservedOverhead.AddedOverhead == nil {
		return 0
	}

	return memory.ReservedOverhead.AddedOverhead.Value()
}

// usesHostDevices reports whether devices of the node are passed
// through to the guest (pkg/util, IsVFIOVMI).
func usesHostDevices(instance *kubevirtv1.VirtualMachineInstanceSpec) bool {
	devices := &instance.Domain.Devices

	return len(devices.GPUs) > 0 || len(devices.HostDevices) > 0 ||
		slices.ContainsFunc(devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.SRIOV != nil })
}

// notCalculated returns the parts of a machine's size that are not calculated; empty if all are. A
// named instancetype that was not found is nil in the sizing.
func notCalculated(vm *kubevirtv1.VirtualMachine, s sizing) string {
	var (
		instance = &vm.Spec.Template.Spec
		hugepage = instance.Domain.Memory != nil && instance.Domain.Memory.Hugepages != nil
		reasons  []string
	)

	switch {
	case vm.Spec.Instancetype != nil && s.instancetype == nil:
		reasons = append(reasons, "its instancetype cannot be read, or is inferred from a volume")
	case s.instancetype != nil && unusual(s.instancetype):
		reasons = append(reasons, "its instancetype has dedicated CPUs, devices or huge pages, or overcommits memory")
	}

	if hugepage {
		reasons = append(reasons, "its memory uses huge pages")
	}

	if usesHostDevices(instance) {
		reasons = append(reasons, "it uses devices of its node")
	}

	return strings.Join(reasons, ", and ")
}

// unusual reports whether an instancetype specifies more than virtual CPUs and memory.
func unusual(of *instancetypev1beta1.VirtualMachineInstancetypeSpec) bool {
	return of.Memory.OvercommitPercent > 0 || of.Memory.Hugepages != nil || ptr.Deref(of.CPU.DedicatedCPUPlacement, false) ||
		len(of.GPUs) > 0 || len(of.HostDevices) > 0
}

func virtualCPUs(domain *kubevirtv1.DomainSpec, instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec) int64 {
	switch {
	case instancetype != nil:
		return int64(instancetype.CPU.Guest)
	case domain.CPU != nil && (domain.CPU.Cores > 0 || domain.CPU.Sockets > 0 || domain.CPU.Threads > 0):
		return int64(max(domain.CPU.Cores, 1)) * int64(max(domain.CPU.Sockets, 1)) * int64(max(domain.CPU.Threads, 1))
	default:
		return max(domain.Resources.Limits.Cpu().Value(), domain.Resources.Requests.Cpu().Value(), 1)
	}
}

func guestMemory(domain *kubevirtv1.DomainSpec, instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec) int64 {
	switch {
	case instancetype != nil:
		return instancetype.Memory.Guest.Value()
	case domain.Memory != nil && domain.Memory.Guest != nil:
		return domain.Memory.Guest.Value()
	default:
		return domain.Resources.Limits.Memory().Value()
	}
}
