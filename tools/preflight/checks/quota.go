// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// memoryMargin is what KubeVirt's own processes may take beside the memory of a guest. The real
// amount depends on the version and the configuration of KubeVirt, and on the guest's devices.
var memoryMargin = resource.MustParse("512Mi")

// checkQuota compares what is left in each ResourceQuota with about what the wanted machines of all classes
// ask for. It only warns, since KubeVirt and CDI decide what their pods and claims request.
func checkQuota(ctx context.Context, r *reader, in *scope) []Result {
	s := r.about("ResourceQuotas of Namespace " + r.namespace())
	show := kubectlIn(r.namespace(), "describe resourcequotas")

	quotas, err := r.quotas(ctx)
	if err != nil {
		return s.notChecked(err, show)
	}

	machines, needed := estimate(ctx, r, in.classes)
	if machines == 0 {
		return s.ok("no more machines are needed")
	}

	if short := shortages(quotas, needed); len(short) > 0 {
		return s.warn(fmt.Sprintf("probably not enough for %d machines: %s", machines, strings.Join(short, "; ")), "raise the quota: "+show)
	}

	return s.ok(fmt.Sprintf("probably enough for %d machines", machines))
}

// estimate returns the number of wanted machines of all classes, and about what they ask of quotas.
func estimate(ctx context.Context, r *reader, classes []*class) (machines int, needed corev1.ResourceList) {
	needed = corev1.ResourceList{}
	images := map[string]bool{}

	for _, c := range classes {
		if c.Wanted == 0 {
			continue
		}

		machines += c.Wanted

		add(needed, machineEstimate(c, r.instancetype(ctx, c.instancetype())), int64(c.Wanted))

		if c.image != nil && !images[c.image.Name] {
			images[c.image.Name] = true
			addClaim(needed, requestedStorage(&c.image.Spec))
		}
	}

	return machines, needed
}

// machineEstimate returns about what a machine asks of quotas: the requests of its VirtualMachine with a margin,
// and its objects. The memory of its guest may be that of the instancetype.
func machineEstimate(c *class, of *instancetypev1beta1.VirtualMachineInstancetypeSpec) corev1.ResourceList {
	domain := &c.instance().Domain
	requests := domain.Resources.Requests
	one := corev1.ResourceList{
		corev1.ResourcePods:                 resource.MustParse("1"),
		corev1.ResourceSecrets:              *resource.NewQuantity(int64(len(c.secrets)), resource.DecimalSI),
		"count/virtualmachines.kubevirt.io": resource.MustParse("1"),
	}

	memory := *requests.Memory()
	if memory.IsZero() {
		memory = ptr.Deref(ptr.Deref(domain.Memory, kubevirtv1.Memory{}).Guest, of.Memory.Guest)
	}

	if !memory.IsZero() {
		memory.Add(memoryMargin)
		one[corev1.ResourceRequestsMemory] = memory
	}

	if cpu := requests.Cpu(); !cpu.IsZero() {
		one[corev1.ResourceRequestsCPU] = *cpu
	}

	for _, d := range c.disks() {
		addClaim(one, d.requested)
	}

	return one
}

// addClaim adds the quota that a claim consumes.
func addClaim(sum corev1.ResourceList, requested cdiv1beta1.StorageSpec) {
	add(sum, corev1.ResourceList{
		corev1.ResourcePersistentVolumeClaims: resource.MustParse("1"),
		corev1.ResourceRequestsStorage:        *requested.Resources.Requests.Storage(),
	}, 1)
}

// add adds a list, multiplied by n, to a sum.
func add(sum, list corev1.ResourceList, n int64) {
	for name, amount := range list {
		amount = amount.DeepCopy()
		amount.Mul(n)
		amount.Add(sum[name])
		sum[name] = amount
	}
}

// shortages describes the resources of which quotas have less left than needed. It ignores quotas with scopes,
// which count only some objects.
func shortages(quotas []corev1.ResourceQuota, needed corev1.ResourceList) []string {
	var texts []string

	for i := range quotas {
		quota := &quotas[i]
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}

		for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
			need, counted := needed[countedAs(name)]
			left := quota.Spec.Hard[name].DeepCopy()
			left.Sub(quota.Status.Used[name])

			if counted && need.Cmp(left) > 0 {
				texts = append(texts, fmt.Sprintf("ResourceQuota %s has %s of %s left, but about %s is needed", quota.Name, inUnits(left), name, inUnits(need)))
			}
		}
	}

	return texts
}

// countedAs returns the name under which estimates count a resource: quotas have two names for some.
func countedAs(name corev1.ResourceName) corev1.ResourceName {
	switch short := strings.TrimPrefix(string(name), "count/"); corev1.ResourceName(short) {
	case corev1.ResourcePods, corev1.ResourceSecrets, corev1.ResourcePersistentVolumeClaims:
		return corev1.ResourceName(short)
	case corev1.ResourceCPU:
		return corev1.ResourceRequestsCPU
	case corev1.ResourceMemory:
		return corev1.ResourceRequestsMemory
	default:
		return name
	}
}

// inUnits formats an amount with the unit of people: quotas of bytes in Mi.
func inUnits(amount resource.Quantity) string {
	const mebibyte = 1 << 20

	if bytes := amount.Value(); bytes >= mebibyte {
		return fmt.Sprintf("%dMi", bytes/mebibyte)
	}

	return amount.String()
}
