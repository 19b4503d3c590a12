package preflight

import (
	"math"
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
	// launcherOverhead is what KubeVirt adds to each guest's memory for its own processes, an I/O thread and the video memory; each
	// virtual CPU takes cpuOverhead more, and page tables the memory that is requested, if any is, divided by pageTables
	// (pkg/virt-controller/services, GetMemoryOverhead). Rare devices take more, which is not counted.
	launcherOverhead = (25 + 100 + 25 + 40 + 30 + 8 + 32) * mebibyte
	cpuOverhead      = 8 * mebibyte
	pageTables       = 512
	// consoleCPU, in thousandths, and consoleMemory are for the container that logs the serial console.
	consoleCPU    = 5
	consoleMemory = 35_000_000
	// ephemeralStorage is for KubeVirt's own files.
	ephemeralStorage = 50_000_000
	// limitRatio is what KubeVirt multiplies the memory request by where a quota asks for limits.
	limitRatio = 2
)

// sizing is what decides over the size of a machine's pod beside the VirtualMachine.
type sizing struct {
	// allocation is how many virtual CPUs share one, overcommit the guest's memory in percent of what is requested for it.
	allocation, overcommit int
	// instancetype gives the size if it is not in the VirtualMachine.
	instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
}

// sizingOf reads what the admin has configured. KubeVirt's defaults are in pkg/virt-config.
func sizingOf(found *kubevirtv1.KubeVirt) sizing {
	const allocation, overcommit = 10, 100

	s := sizing{allocation: allocation, overcommit: overcommit}
	if found == nil || found.Spec.Configuration.DeveloperConfiguration == nil {
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

// podResources returns, about, what a machine's pod requests and is limited to.
func podResources(vm *kubevirtv1.VirtualMachine, s sizing) (requests, limits corev1.ResourceList) {
	var (
		domain = &vm.Spec.Template.Spec.Domain
		cpus   = virtualCPUs(domain, s.instancetype)
		guest  = guestMemory(domain, s.instancetype)
	)

	cpu := domain.Resources.Requests[corev1.ResourceCPU]

	switch {
	case !cpu.IsZero():
	case domain.CPU != nil && domain.CPU.DedicatedCPUPlacement:
		cpu = *resource.NewQuantity(cpus, resource.DecimalSI)
	default:
		cpu = *resource.NewMilliQuantity((cpus*1000+int64(s.allocation)-1)/int64(s.allocation), resource.DecimalSI)
	}

	memory := domain.Resources.Requests.Memory().Value()
	overhead := memory/pageTables + launcherOverhead + cpus*cpuOverhead

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

	requests = corev1.ResourceList{
		corev1.ResourceCPU:              plus(cpu, *resource.NewMilliQuantity(consoleCPU, resource.DecimalSI)),
		corev1.ResourceMemory:           *resource.NewQuantity(memory+consoleMemory, resource.BinarySI),
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

// volume is a claim in its final size.
type volume struct {
	class  string
	size   resource.Quantity
	cloned bool
	// copied says that its clone goes through two pods.
	copied bool
	blank  bool
}

// volumeOf returns what a claim becomes. A file system takes a part of the volume, which CDI adds (pkg/util, GetRequiredSpace).
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

// describe names the amounts that people think in.
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

// inMebibytes rounds up to what is easily read.
func inMebibytes(q *resource.Quantity) string {
	rounded := (q.Value() + mebibyte - 1) / mebibyte * mebibyte

	return resource.NewQuantity(rounded, resource.BinarySI).String()
}
