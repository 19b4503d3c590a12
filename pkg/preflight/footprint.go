package preflight

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

const (
	mebibyte = 1 << 20
	// launcherOverhead is the memory that KubeVirt adds to each guest for its own processes, an I/O
	// thread and the video memory. Each virtual CPU takes cpuOverhead more, and page tables take
	// the requested memory, if any, divided by pageTables (pkg/virt-controller/services,
	// GetMemoryOverhead). Rare devices take more, which is not counted.
	launcherOverhead = (25 + 100 + 25 + 40 + 30 + 8 + 32) * mebibyte
	cpuOverhead      = 8 * mebibyte
	pageTables       = 512
	// consoleCPU, in thousandths, and consoleMemory are the requests of the container that
	// logs the serial console. With dedicated CPUs, it requests its limits:
	// pinnedConsoleCPU and pinnedConsoleMemory.
	consoleCPU, pinnedConsoleCPU       = 5, 15
	consoleMemory, pinnedConsoleMemory = 35_000_000, 60_000_000
	// ephemeralStorage is the request for KubeVirt's own files.
	ephemeralStorage = 50_000_000
	// armOverhead is for the firmware on arm64, deviceOverhead for passed-through devices,
	// pinnedOverhead for dedicated CPUs.
	armOverhead, deviceOverhead, pinnedOverhead = 128 * mebibyte, 1024 * mebibyte, 100 * mebibyte
	// defaultCPURequest, in thousandths, is the default in KubeVirt's configuration.
	defaultCPURequest = 100
	// limitRatio is the factor from memory request to memory limit that
	// KubeVirt uses where a quota requires limits.
	limitRatio = 2
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
	// instancetype specifies the size if the VirtualMachine does not.
	instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
}

// sizingOf reads the admin's configuration. KubeVirt's defaults are in pkg/virt-config.
func sizingOf(found *kubevirtv1.KubeVirt) sizing {
	const allocation, overcommit = 10, 100

	s := sizing{allocation: allocation, overcommit: overcommit, overhead: 1}
	if found == nil {
		return s
	}

	// KubeVirt cannot distinguish its default from the same value set explicitly (pkg/defaults).
	if given := found.Spec.Configuration.CPURequest; given != nil && given.MilliValue() != defaultCPURequest {
		s.cpuRequest = *given
	}

	if ratio, err := strconv.ParseFloat(ptr.Deref(found.Spec.Configuration.AdditionalGuestMemoryOverheadRatio, ""), 64); err == nil && ratio > 0 {
		s.overhead = ratio
	}

	if found.Spec.Configuration.DeveloperConfiguration == nil {
		return s
	}

	if given := found.Spec.Configuration.DeveloperConfiguration.CPUAllocationRatio; given > 0 {
		s.allocation = given
	}

	if given := found.Spec.Configuration.DeveloperConfiguration.MemoryOvercommit; given > 0 {
		s.overcommit = given
	}

	return s
}

// podResources returns the approximate requests and limits of a machine's pod.
func podResources(vm *kubevirtv1.VirtualMachine, s sizing) (requests, limits corev1.ResourceList) {
	var (
		domain = &vm.Spec.Template.Spec.Domain
		cpus   = virtualCPUs(domain, s.instancetype)
		guest  = guestMemory(domain, s.instancetype)
	)

	cpu, memory := cpuOf(domain, cpus, s), domain.Resources.Requests.Memory().Value()
	overhead := overheadOfPod(&vm.Spec.Template.Spec, memory, cpus, s)

	switch most := domain.Resources.Limits.Memory().Value(); {
	case memory > 0:
	case most > 0:
		memory = most
	default:
		memory = guest * 100 / int64(s.overcommit)
	}

	if !domain.Resources.OvercommitGuestOverhead {
		memory += overhead
	}

	console := consoleOf(domain)
	requests = corev1.ResourceList{
		corev1.ResourceCPU:              plus(cpu, console[corev1.ResourceCPU]),
		corev1.ResourceMemory:           plus(*resource.NewQuantity(memory, resource.BinarySI), console[corev1.ResourceMemory]),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(ephemeralStorage, resource.BinarySI),
	}
	limits = corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory*limitRatio, resource.BinarySI),
	}

	if given, ok := domain.Resources.Limits[corev1.ResourceCPU]; ok {
		limits[corev1.ResourceCPU] = given
	}

	if given, ok := domain.Resources.Limits[corev1.ResourceMemory]; ok {
		limits[corev1.ResourceMemory] = plus(given, *resource.NewQuantity(overhead, resource.BinarySI))
	}

	return requests, limits
}

// cpuOf returns the CPU request for the virtual CPUs (pkg/defaults, and
// pkg/virt-controller/services).
func cpuOf(domain *kubevirtv1.DomainSpec, cpus int64, s sizing) resource.Quantity {
	requested, limit := domain.Resources.Requests[corev1.ResourceCPU], domain.Resources.Limits[corev1.ResourceCPU]

	switch {
	case pinned(domain):
		return *resource.NewQuantity(cpus, resource.DecimalSI)
	case !requested.IsZero():
		return requested
	case !limit.IsZero():
		return limit
	case !s.cpuRequest.IsZero():
		return s.cpuRequest
	default:
		return *resource.NewMilliQuantity((cpus*1000+int64(s.allocation)-1)/int64(s.allocation), resource.DecimalSI)
	}
}

// pinned reports whether the guest has dedicated CPUs.
func pinned(domain *kubevirtv1.DomainSpec) bool {
	return domain.CPU != nil && domain.CPU.DedicatedCPUPlacement
}

// consoleOf returns the requests of the container that logs the serial console.
func consoleOf(domain *kubevirtv1.DomainSpec) corev1.ResourceList {
	if pinned(domain) {
		return consoleLimits()
	}

	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(consoleCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(consoleMemory, resource.BinarySI),
	}
}

// consoleLimits returns the limits of that container.
func consoleLimits() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(pinnedConsoleCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(pinnedConsoleMemory, resource.BinarySI),
	}
}

// overheadOfPod returns the memory of KubeVirt's own processes.
func overheadOfPod(instance *kubevirtv1.VirtualMachineInstanceSpec, requested, cpus int64, s sizing) int64 {
	overhead := requested/pageTables + launcherOverhead + cpus*cpuOverhead

	if instance.Architecture == "arm64" {
		overhead += armOverhead
	}

	if usesHostDevices(instance) {
		overhead += deviceOverhead
	}

	if pinned(&instance.Domain) {
		overhead += pinnedOverhead
	}

	return int64(float64(overhead) * s.overhead)
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

func plus(a, b resource.Quantity) resource.Quantity {
	sum := a.DeepCopy()
	sum.Add(b)

	return sum
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

// volume is a claim with its final size.
type volume struct {
	class  string
	size   resource.Quantity
	cloned bool
	// copied reports whether it is cloned through two pods.
	copied bool
	blank  bool
}

// volumeOf returns the volume of a claim. CDI adds the space that a file
// system needs (pkg/util, GetRequiredSpace).
func volumeOf(of *claim, found *storages) volume {
	class, v := of.storageClass(found), volume{cloned: of.cloned, blank: of.blank}
	v.class = class

	_, given, mode, completed := of.wants()
	if profile := found.profiles[class]; profile != nil {
		v.copied = ptr.Deref(profile.Status.CloneStrategy, "") == cdiv1beta1.CloneStrategyHostAssisted

		if mode == nil && completed {
			_, mode = effectiveModes(given, nil, profile.Status.ClaimPropertySets)
		}
	}

	v.size = sizeOf(of.spec)
	if completed && ptr.Deref(mode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeFilesystem {
		aligned := math.Ceil(float64(v.size.Value())/mebibyte) * mebibyte
		v.size = *resource.NewQuantity(int64(math.Ceil(aligned*(1+overheadOf(class, found.config)))), resource.BinarySI)
	}

	return v
}

func sizeOf(spec *cdiv1beta1.DataVolumeSpec) resource.Quantity {
	switch {
	case spec.Storage != nil:
		return spec.Storage.Resources.Requests[corev1.ResourceStorage]
	case spec.PVC != nil:
		return spec.PVC.Resources.Requests[corev1.ResourceStorage]
	default:
		return resource.Quantity{}
	}
}

func overheadOf(class string, config *cdiv1beta1.CDIConfig) float64 {
	text := "0.06" // CDI's default.

	if of := config.Status.FilesystemOverhead; of != nil {
		if of.Global != "" {
			text = string(of.Global)
		}

		if given, ok := of.StorageClass[class]; ok {
			text = string(given)
		}
	}

	overhead, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}

	return overhead
}

// describe formats CPU, memory and storage for people.
func describe(requests corev1.ResourceList, volumes []volume) string {
	var storage resource.Quantity
	for _, v := range volumes {
		storage.Add(v.size)
	}

	parts := []string{"cpu " + requests.Cpu().String(), "memory " + inMebibytes(requests.Memory())}
	if len(volumes) > 0 {
		parts = append(parts, "storage "+inMebibytes(&storage))
	}

	return strings.Join(parts, ", ")
}

// inMebibytes rounds up to whole MiB for readability.
func inMebibytes(q *resource.Quantity) string {
	rounded := (q.Value() + mebibyte - 1) / mebibyte * mebibyte

	return resource.NewQuantity(rounded, resource.BinarySI).String()
}
