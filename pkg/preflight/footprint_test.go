package preflight

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

func TestPodResources(t *testing.T) {
	t.Parallel()

	// 260 MiB for the launcher, 8 MiB for each virtual CPU, a 512th of the requested memory for
	// page tables, and 35 MB for the log of the console.
	tests := map[string]struct {
		reason      string
		domain      string
		sizing      sizing
		cpu, memory string
		limit       string
	}{
		"Guest": {reason: "the common case", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"}}`, cpu: "205m", memory: "4406Mi", limit: "8744Mi"},
		"Topology": {
			reason: "cores, sockets and threads multiply", domain: `{"cpu":{"cores":2,"sockets":2,"threads":2},"memory":{"guest":"4Gi"}}`,
			cpu: "805m", memory: "4454Mi", limit: "8840Mi",
		},
		"Requests": {
			reason: "what is requested counts", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"1","memory":"2Gi"}}}`,
			cpu: "1005m", memory: "2362Mi", limit: "4656Mi",
		},
		"Overcommitted": {
			reason: "the overhead can be left out", domain: `{"memory":{"guest":"4Gi"},"resources":{"overcommitGuestOverhead":true}}`,
			cpu: "105m", memory: "4130Mi", limit: "8Gi",
		},
		"Dedicated": {
			reason: "whole CPUs", domain: `{"cpu":{"cores":4,"dedicatedCpuPlacement":true},"memory":{"guest":"1Gi"}}`, cpu: "4015m", memory: "1474Mi", limit: "2832Mi",
		},
		"Ratios": {
			reason: "the admin's ratios", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"}}`, sizing: sizing{allocation: 1, overcommit: 200, overhead: 1},
			cpu: "2005m", memory: "2358Mi", limit: "4648Mi",
		},
		"Limits": {
			reason: "limits of the class", domain: `{"cpu":{"cores":1},"memory":{"guest":"1Gi"},"resources":{"limits":{"memory":"3Gi"}}}`, cpu: "105m", memory: "3374Mi", limit: "3340Mi",
		},
		"LimitedCPU": {
			reason: "KubeVirt requests the limit", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"},"resources":{"limits":{"cpu":"2"}}}`,
			cpu: "2005m", memory: "4406Mi", limit: "8744Mi",
		},
		"AdminsCPU": {
			reason: "what the admin has all machines request", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"}}`,
			sizing: sizing{allocation: 10, overcommit: 100, overhead: 1, cpuRequest: resource.MustParse("300m")}, cpu: "305m", memory: "4406Mi", limit: "8744Mi",
		},
		"Overhead": {
			reason: "and the overhead it has all machines take", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"}}`,
			sizing: sizing{allocation: 10, overcommit: 100, overhead: 2}, cpu: "205m", memory: "4682Mi", limit: "9296Mi",
		},
		"AddedOverhead": {
			reason: "the class adds overhead, before the admin's factor", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi","reservedOverhead":{"addedOverhead":"100Mi"}}}`,
			sizing: sizing{allocation: 10, overcommit: 100, overhead: 2}, cpu: "205m", memory: "4882Mi", limit: "9696Mi",
		},
		"Paged": {
			reason: "up to KubeVirt 1.6, the guest's memory counts as requested", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"}}`,
			sizing: sizing{allocation: 10, overcommit: 100, overhead: 1, paged: true}, cpu: "205m", memory: "4414Mi", limit: "8760Mi",
		},
		"PagedLimits": {
			reason: "and so does the limit of the class", domain: `{"cpu":{"cores":1},"memory":{"guest":"1Gi"},"resources":{"limits":{"memory":"3Gi"}}}`,
			sizing: sizing{allocation: 10, overcommit: 100, overhead: 1, paged: true}, cpu: "105m", memory: "3380Mi", limit: "3346Mi",
		},
		"Devices": {
			reason: "devices are mapped", domain: `{"cpu":{"cores":2},"memory":{"guest":"4Gi"},"devices":{"gpus":[{"name":"g","deviceName":"example.com/g"}]}}`,
			cpu: "205m", memory: "5430Mi", limit: "10792Mi",
		},
		"Instancetype": {
			reason: "the size is elsewhere", domain: `{}`, sizing: sizing{allocation: 10, overcommit: 100, overhead: 1, instancetype: &instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi")},
			}}, cpu: "205m", memory: "4406Mi", limit: "8744Mi",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if tc.sizing == (sizing{}) {
				tc.sizing = sizingOf(&kubevirtv1.KubeVirtConfiguration{})
			}

			requests, limits := podResources(machine(t, `{"spec":{"template":{"spec":{"domain":`+tc.domain+`}}}}`), tc.sizing)
			require.Equal(t, tc.cpu, requests.Cpu().String(), tc.reason)
			require.Equal(t, tc.memory, inMebibytes(requests.Memory()), tc.reason)
			require.Equal(t, tc.limit, inMebibytes(limits.Memory()), tc.reason)
		})
	}
}

func TestNotCounted(t *testing.T) {
	t.Parallel()

	instancetype := func(change func(*instancetypev1beta1.VirtualMachineInstancetypeSpec)) sizing {
		s := sizing{instancetype: &instancetypev1beta1.VirtualMachineInstancetypeSpec{}}
		change(s.instancetype)

		return s
	}

	tests := map[string]struct {
		reason string
		spec   string
		sizing sizing
		want   string
	}{
		"All":      {reason: "there is nothing unusual", spec: `{}`},
		"Found":    {reason: "the instancetype is plain", spec: `{"instancetype":{"name":"i"}}`, sizing: instancetype(func(*instancetypev1beta1.VirtualMachineInstancetypeSpec) {})},
		"Missing":  {reason: "it cannot be read", spec: `{"instancetype":{"name":"i"}}`, want: "cannot be read"},
		"Inferred": {reason: "KubeVirt knows it alone", spec: `{"instancetype":{"inferFromVolume":"root"}}`, want: "inferred"},
		"Overcommit": {
			reason: "it asks for less than it gives", spec: `{"instancetype":{"name":"i"}}`, want: "overcommits",
			sizing: instancetype(func(i *instancetypev1beta1.VirtualMachineInstancetypeSpec) { i.Memory.OvercommitPercent = 10 }),
		},
		"HugePages": {reason: "which are counted apart", spec: `{"template":{"spec":{"domain":{"memory":{"hugepages":{"pageSize":"2Mi"}}}}}}`, want: "huge pages"},
		"Device":    {reason: "and so are devices", spec: `{"template":{"spec":{"domain":{"devices":{"interfaces":[{"name":"i","sriov":{}}]}}}}}`, want: "devices of its node"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm := machine(t, `{"spec":`+tc.spec+`}`)
			if vm.Spec.Template == nil {
				vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
			}

			got := notCalculated(vm, tc.sizing)
			require.Equal(t, tc.want == "", got == "", tc.reason)
			require.Contains(t, got, tc.want, tc.reason)
		})
	}
}

func TestSizingOf(t *testing.T) {
	t.Parallel()

	config := &kubevirtv1.KubeVirtConfiguration{}
	require.Equal(t, sizing{allocation: 10, overcommit: 100, overhead: 1}, sizingOf(config))

	config.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{CPUAllocationRatio: 2, MemoryOvercommit: 150}
	require.Equal(t, sizing{allocation: 2, overcommit: 150, overhead: 1}, sizingOf(config))

	config.CPURequest = ptr.To(resource.MustParse("0.1"))
	require.Equal(t, resource.Quantity{}, sizingOf(config).cpuRequest, "KubeVirt takes its default for none")

	config.CPURequest = ptr.To(resource.MustParse("250m"))
	config.AdditionalGuestMemoryOverheadRatio = ptr.To("1.5")
	require.Equal(t, sizing{allocation: 2, overcommit: 150, overhead: 1.5, cpuRequest: resource.MustParse("250m")}, sizingOf(config))
}

func TestQuotas(t *testing.T) {
	t.Parallel()

	root := disk{class: "fast", size: resource.MustParse("10Gi"), cloned: true}
	pod := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	one := machineUsage(pod, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, []disk{root}, 2)
	importer := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}

	copied, imported := root, root
	copied.copied, imported.cloned = true, false

	tests := map[string]struct {
		reason string
		need   corev1.ResourceList
		hard   map[corev1.ResourceName]string
		used   map[corev1.ResourceName]string
		want   []string
	}{
		"Enough":     {reason: "exactly enough is enough", need: one, hard: quantities("pods", "1", "requests.storage", "10Gi", "count/secrets", "2")},
		"NotCounted": {reason: "what no machine needs", need: one, hard: quantities("services", "0")},
		"Used": {
			reason: "what is used is not left",
			need:   one, hard: quantities("pods", "5"), used: quantities("pods", "5"), want: []string{"pods"},
		},
		"Names": {
			reason: "old and new names",
			need:   one, hard: quantities("cpu", "99m", "requests.cpu", "99m", "limits.cpu", "100m"), want: []string{"cpu", "limits.cpu", "requests.cpu"},
		},
		"Several": {
			reason: "many machines need more",
			need:   times(one, 3), hard: quantities("requests.memory", "2Gi"), want: []string{"requests.memory"},
		},
		"Class": {
			reason: "a class of storage",
			need:   one, hard: quantities("fast.storageclass.storage.k8s.io/requests.storage", "5Gi"),
			want: []string{"fast.storageclass.storage.k8s.io/requests.storage"},
		},
		"Objects": {
			reason: "objects of KubeVirt and CDI",
			need:   one, hard: quantities("count/virtualmachines.kubevirt.io", "0", "count/datavolumes.cdi.kubevirt.io", "0"),
			want: []string{"count/datavolumes.cdi.kubevirt.io", "count/virtualmachines.kubevirt.io"},
		},
		"Clone": {
			reason: "a clone is made of another claim, by a pod",
			need:   sum(one, fillingUsage(root, importer)), hard: quantities("persistentvolumeclaims", "1", "pods", "1", "requests.cpu", "199m"),
			want: []string{"persistentvolumeclaims", "pods", "requests.cpu"},
		},
		"CloneFits": {
			reason: "and of no more",
			need:   sum(one, fillingUsage(root, importer)), hard: quantities("persistentvolumeclaims", "2", "pods", "2"),
		},
		"Copy": {
			reason: "a copy takes two pods",
			need:   sum(one, fillingUsage(copied, importer)), hard: quantities("persistentvolumeclaims", "2", "pods", "2"), want: []string{"pods"},
		},
		"Import": {
			reason: "an import takes scratch space",
			need:   sum(diskUsage(imported), fillingUsage(imported, importer)), hard: quantities("persistentvolumeclaims", "2", "pods", "1"),
			want: []string{"persistentvolumeclaims"},
		},
		"ImportInAll": {
			reason: "and of no more",
			need:   sum(diskUsage(imported), fillingUsage(imported, importer)), hard: quantities("requests.storage", "30Gi"),
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			quota := corev1.ResourceQuota{
				Spec: corev1.ResourceQuotaSpec{Hard: amounts(tc.hard)}, Status: corev1.ResourceQuotaStatus{Used: amounts(tc.used)},
			}

			var got []string
			for _, l := range shortages(tc.need, []corev1.ResourceQuota{quota}) {
				got = append(got, string(l.name))
			}

			require.Equal(t, tc.want, got, tc.reason)

			quota.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
			require.Empty(t, shortages(tc.need, []corev1.ResourceQuota{quota}), "with scopes, it is for others")
		})
	}

	quota := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: amounts(quantities("pods", "7", "requests.storage", "45Gi"))}}
	require.Equal(t, 3, fitting(&demand{one: one, image: diskUsage(imported)}, 10, []corev1.ResourceQuota{quota}), "besides the image")
	require.Equal(t, 2, fitting(&demand{one: one}, 2, []corev1.ResourceQuota{quota}), "no more than wanted")
}

func quantities(pairs ...string) map[corev1.ResourceName]string {
	set := map[corev1.ResourceName]string{}
	for i := 0; i < len(pairs); i += 2 {
		set[corev1.ResourceName(pairs[i])] = pairs[i+1]
	}

	return set
}

func amounts(of map[corev1.ResourceName]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range of {
		list[name] = resource.MustParse(text)
	}

	return list
}

// TestOneRemedyPerQuota has three results that lack parts of two quotas.
func TestOneRemedyPerQuota(t *testing.T) {
	t.Parallel()

	quota := func(name string, hard ...string) corev1.ResourceQuota {
		q := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: amounts(quantities(hard...))}, Status: corev1.ResourceQuotaStatus{Used: amounts(quantities(hard...))}}
		q.Name = name

		return q
	}
	quotas := []corev1.ResourceQuota{quota("a", "pods", "5", "secrets", "1"), quota("b", "pods", "9")}
	short := func(pods string) []Result {
		return subject{}.short(pods, shortages(corev1.ResourceList{"pods": resource.MustParse(pods), "secrets": resource.MustParse("1")}, quotas))
	}

	got := merged("ns", slices.Concat(short("2"), short("3"), subject{}.ok("fine")))

	want := `kubectl --namespace ns patch resourcequota a --type=merge --patch='{"spec":{"hard":{"pods":"8","secrets":"2"}}}'` +
		` && kubectl --namespace ns patch resourcequota b --type=merge --patch='{"spec":{"hard":{"pods":"12"}}}'`
	require.Equal(t, []string{want, want, ""}, []string{got[0].Remedy, got[1].Remedy, got[2].Remedy}, "far enough for both")
}

// TestTheSameIsSaidOnce has two classes that share a warning.
func TestTheSameIsSaidOnce(t *testing.T) {
	t.Parallel()

	warn := func(class, message string) Result { return subject{class: class}.warn(message, "r")[0] }
	fine := func(class string) Result { return subject{class: class}.ok("m")[0] }

	got := merged("ns", []Result{warn("", "all"), fine("a"), warn("a", "shared"), warn("a", "own"), fine("b"), warn("b", "shared")})

	shared := warn("", "shared")
	shared.Classes = []string{"a", "b"}
	require.Equal(t, []Result{warn("", "all"), shared, fine("a"), warn("a", "own"), fine("b")}, got)
}

func TestSizeOfDisk(t *testing.T) {
	t.Parallel()

	block, files := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	storage := func(mode *corev1.PersistentVolumeMode) *cdiv1beta1.DataVolumeSpec {
		spec := &cdiv1beta1.StorageSpec{VolumeMode: mode}
		spec.Resources.Requests = amounts(quantities("storage", "100Mi"))

		return &cdiv1beta1.DataVolumeSpec{Storage: spec}
	}

	tests := map[string]struct {
		reason   string
		spec     *cdiv1beta1.DataVolumeSpec
		sets     []cdiv1beta1.ClaimPropertySet
		overhead *cdiv1beta1.FilesystemOverhead
		want     string
	}{
		"Block":   {reason: "a device has no file system", spec: storage(&block), want: "100Mi"},
		"Files":   {reason: "a file system takes 6 %", spec: storage(&files), want: "106Mi"},
		"Unknown": {reason: "which Kubernetes takes for granted", spec: storage(nil), want: "106Mi"},
		"Profile": {reason: "the profile knows", spec: storage(nil), sets: []cdiv1beta1.ClaimPropertySet{{VolumeMode: &block}}, want: "100Mi"},
		"Claim": {
			reason: "a claim is taken as it is",
			spec:   &cdiv1beta1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: amounts(quantities("storage", "100Mi"))}}},
			want:   "100Mi",
		},
		"Overhead": {reason: "the admin's overhead", spec: storage(nil), overhead: &cdiv1beta1.FilesystemOverhead{Global: "0.5"}, want: "150Mi"},
		"OfClass": {
			reason: "that of the class",
			spec:   storage(nil), overhead: &cdiv1beta1.FilesystemOverhead{Global: "0.5", StorageClass: map[string]cdiv1beta1.Percent{"": "0.25"}},
			want: "125Mi",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			found := &storages{
				profiles: map[string]*cdiv1beta1.StorageProfile{"": {Status: cdiv1beta1.StorageProfileStatus{ClaimPropertySets: tc.sets}}},
				config:   &cdiv1beta1.CDIConfig{Status: cdiv1beta1.CDIConfigStatus{FilesystemOverhead: tc.overhead}},
			}
			got := found.disk(rootVolumePath, tc.spec)
			require.Equal(t, tc.want, inMebibytes(&got.size), tc.reason)
		})
	}
}

func TestConflictsWith(t *testing.T) {
	t.Parallel()

	item := corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Max: amounts(quantities("memory", "4Gi")),
		Default: amounts(quantities("cpu", "50m")), Min: amounts(quantities("memory", "1Gi")),
	}
	claims := corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: amounts(quantities("storage", "10Gi"))}
	of := func(items ...corev1.LimitRangeItem) []corev1.LimitRange {
		return []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: items}}}
	}

	pod := func(pairs ...string) []limited {
		return withPod(limited{name: "c", requests: amounts(quantities(pairs...))})
	}
	claim := func(size string) []limited { return claimsOf([]disk{{size: resource.MustParse(size)}}) }

	require.Empty(t, conflictsWith(of(item, claims), append(pod("cpu", "50m", "memory", "4Gi"), claim("10Gi")...)))
	require.Len(t, conflictsWith(of(item), pod("cpu", "51m", "memory", "5Gi")), 2)
	require.Len(t, conflictsWith(of(item), pod("cpu", "1m", "memory", "512Mi")), 1)
	require.Len(t, conflictsWith(of(claims), claim("11Gi")), 1)

	given := withPod(limited{name: "c", requests: amounts(quantities("cpu", "60m", "memory", "1Gi")), limits: amounts(quantities("cpu", "1", "memory", "5Gi"))})
	require.Equal(t, []string{"memory of c, 5Gi, exceeds the max of 4Gi in LimitRange "}, conflictsWith(of(item), given),
		"a default is for what has no limit")

	small := machine(t, `{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"2Gi"}}}}}}`)
	least := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: amounts(quantities("memory", "1Gi"))}
	require.Equal(t, []string{"memory of the container guest-console-log, 35M, is below the min of 1Gi in LimitRange "},
		conflictsWith(of(least), containersOf(small, sizingOf(&kubevirtv1.KubeVirtConfiguration{}))), "each container is judged")

	least.Type = corev1.LimitTypePod
	require.Empty(t, conflictsWith(of(least), containersOf(small, sizingOf(&kubevirtv1.KubeVirtConfiguration{}))), "or the pod as a whole")
}
