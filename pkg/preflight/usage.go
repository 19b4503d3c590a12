package preflight

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// usage is an amount that counts against quotas, by the resource names of ResourceQuotas.
type usage corev1.ResourceList

func (u usage) add(name corev1.ResourceName, amount resource.Quantity) {
	u[name] = plus(u[name], amount)
}

func (u usage) count(kind corev1.ResourceName, n int64) {
	u.add(kind, *resource.NewQuantity(n, resource.DecimalSI))
	u.add("count/"+kind, *resource.NewQuantity(n, resource.DecimalSI))
}

// times returns the usage multiplied by n.
func (u usage) times(n int64) usage {
	product := usage{}

	for name, amount := range u {
		amount = amount.DeepCopy()
		amount.Mul(n)
		product[name] = amount
	}

	return product
}

// and returns the sum of both.
func (u usage) and(other usage) usage {
	sum := maps.Clone(u)
	for name, amount := range other {
		sum.add(name, amount)
	}

	return sum
}

func (u usage) addPod(requests, limits corev1.ResourceList) {
	u.count(corev1.ResourcePods, 1)

	for name, amount := range requests {
		u.add(name, amount)
		u.add("requests."+name, amount)
	}

	for name, amount := range limits {
		u.add("limits."+name, amount)
	}
}

func (u usage) addClaim(v volume) {
	prefix := corev1.ResourceName(v.class) + ".storageclass.storage.k8s.io/"

	u.count(corev1.ResourcePersistentVolumeClaims, 1)
	u.add(corev1.ResourceRequestsStorage, v.size)
	u.add(prefix+corev1.ResourcePersistentVolumeClaims, *resource.NewQuantity(1, resource.DecimalSI))
	u.add(prefix+corev1.ResourceRequestsStorage, v.size)
}

const countDataVolumes = corev1.ResourceName("count/datavolumes.cdi.kubevirt.io")

// machineUsage returns the usage of one machine during its lifetime.
func machineUsage(requests, limits corev1.ResourceList, volumes []volume, secrets int) usage {
	u := usage{}
	u.addPod(requests, limits)
	u.count(corev1.ResourceSecrets, int64(secrets))

	one := *resource.NewQuantity(1, resource.DecimalSI)
	u.add("count/virtualmachines.kubevirt.io", one)
	u.add("count/virtualmachineinstances.kubevirt.io", one)

	for _, v := range volumes {
		u.addClaim(v)
		u.add(countDataVolumes, one)
	}

	return u
}

// imageUsage returns the usage of a golden image during its lifetime.
func imageUsage(image volume) usage {
	u := usage{}
	u.addClaim(image)
	u.add(countDataVolumes, *resource.NewQuantity(1, resource.DecimalSI))

	return u
}

// fillingUsage returns the additional usage while a volume is filled: a claim that becomes the
// volume in the end; for an import, which may have to be unpacked, a claim for scratch space; and
// one pod that fills the volume, or two for a copy.
func fillingUsage(v volume, pod corev1.ResourceRequirements) usage {
	u := usage{}
	u.addClaim(v)
	u.addPod(pod.Requests, pod.Limits)

	switch {
	case v.cloned && v.copied:
		u.addPod(pod.Requests, pod.Limits)
	case !v.cloned && !v.blank:
		u.addClaim(v)
	}

	return u
}

// shortage is a resource of which a quota has less left than is needed.
type shortage struct {
	quota string
	name  corev1.ResourceName
	// hard is the quota's bound.
	hard, need, left resource.Quantity
}

func (l shortage) String() string {
	return fmt.Sprintf("ResourceQuota %s has %s of %s left, but %s is needed", l.quota, l.left.String(), l.name, l.need.String())
}

// shortages returns the shortages in quotas, in a stable order. It ignores quotas with scopes.
func shortages(need usage, quotas []corev1.ResourceQuota) []shortage {
	var list []shortage

	for i := range quotas {
		quota := &quotas[i]
		if scoped(quota) {
			continue
		}

		for _, name := range slices.Sorted(maps.Keys(quota.Spec.Hard)) {
			amount, counts := need[name]

			left := quota.Spec.Hard[name].DeepCopy()
			left.Sub(quota.Status.Used[name])

			if counts && amount.Cmp(left) > 0 {
				list = append(list, shortage{quota: quota.Name, name: name, hard: quota.Spec.Hard[name], need: amount, left: left})
			}
		}
	}

	return list
}

// scoped reports whether a quota applies only to some objects.
func scoped(quota *corev1.ResourceQuota) bool {
	return len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil
}

func scopedNames(quotas []corev1.ResourceQuota) []string {
	var names []string

	for i := range quotas {
		if scoped(&quotas[i]) {
			names = append(names, quotas[i].Name)
		}
	}

	return names
}

// fitting returns the number of additional machines, up to a maximum, that the quotas allow.
func fitting(one, once usage, most int, quotas []corev1.ResourceQuota) int {
	for n := most; n > 0; n-- {
		if len(shortages(one.times(int64(n)).and(once), quotas)) == 0 {
			return n
		}
	}

	return 0
}
