package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// manyMachines is the upper bound when counting how many machines fit into the quotas.
const manyMachines = 100

// demand is what a class's machines take of quotas, by the resource names of ResourceQuotas.
type demand struct {
	// one is the usage of a machine, and image that of the golden image, if it does not exist yet.
	one, image corev1.ResourceList
	// phases are the temporary peaks while the first machine is created.
	phases []phase
	// size is the size of a machine, for people.
	size string
}

// phase is a period with more usage than later.
type phase struct {
	name  string
	usage corev1.ResourceList
}

func (c *classChecker) calculateDemand(ctx context.Context) *demand {
	var (
		found            = c.storages()
		disks            = c.disks()
		pod              = ptr.Deref(found.config.Status.DefaultPodResourceRequirements, corev1.ResourceRequirements{})
		requests, limits = podResources(c.vm, c.sizing())
		d                = &demand{one: machineUsage(requests, limits, disks, len(c.secrets)), size: describe(requests, disks)}
	)

	if c.image != nil && c.imageMissing(ctx) {
		image := found.disk(rootVolumePath, &c.image.Spec)
		d.image = diskUsage(image)
		d.phases = append(d.phases, phase{"while the golden image is imported", sum(d.image, fillingUsage(image, pod))})
	}

	if len(disks) > 0 {
		populating := phase{"while the disks of a machine are populated", sum(d.one, d.image)}
		for _, disk := range disks {
			populating.usage = sum(populating.usage, fillingUsage(disk, pod))
		}

		d.phases = append(d.phases, populating)
	}

	return d
}

// imageMissing reports whether the golden image does not exist
// yet. Other errors are reported elsewhere.
func (c *classChecker) imageMissing(ctx context.Context) bool {
	_, err := get(ctx, c.viewer.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Get, c.image.Name)

	return providerapi.Absent(err)
}

// checkSum compares the demand of all classes together with the free
// quota: it may be enough for each class alone.
func (c *checker) checkSum(context.Context) []Result {
	quotas, err := c.quotas()
	if err != nil || len(quotas) == 0 || len(c.classes) < 2 {
		return nil // checkQuota reports an error for each class.
	}

	var (
		s     = c.viewer.about(checkQuota, "ResourceQuotas of Namespace "+c.namespace)
		total corev1.ResourceList
		count int
		// images are shared by classes.
		images = map[string]bool{}
	)

	for _, class := range c.classes {
		if class.Wanted == 0 {
			continue
		}

		need := class.demand()
		total, count = sum(total, times(need.one, int64(class.Wanted))), count+class.Wanted

		if class.image != nil && !images[class.image.Name] {
			total, images[class.image.Name] = sum(total, need.image), true
		}
	}

	purpose := fmt.Sprintf("enough for all %d machines that %d MachineClasses need", count, len(c.classes))

	if missing := shortages(total, quotas); len(missing) > 0 {
		return s.short("there is not "+purpose+": "+joinedShortages(missing), missing)
	}

	return s.ok("there is " + purpose + ", as far as calculated")
}

// checkQuota compares the free quota with the usage of machines during their
// lifetime and while their disks are created.
func (c *classChecker) checkQuota(context.Context) []Result {
	s, show := c.about(checkQuota, "ResourceQuotas of Namespace "+c.namespace), kubectlIn(c.namespace, "describe resourcequotas")

	quotas, err := c.quotas()
	if err != nil {
		return s.notChecked(err, show)
	}

	var results []Result

	if names := scopedNames(quotas); len(names) > 0 {
		results = c.about(checkQuota, "ResourceQuotas "+shortened(names, mostNamed, "; ")).warn("not calculated: the quotas have scopes", show)
	}

	need := c.demand()

	if c.Wanted == 0 {
		return append(results, s.ok(fmt.Sprintf("no more machines are needed; there is enough for %d more (%s each)",
			fitting(need, manyMachines, quotas), need.size))...)
	}

	if missing := shortages(sum(need.one, need.image), quotas); len(missing) > 0 {
		return append(results, s.short("probably not enough for one machine (about "+need.size+"): "+joinedShortages(missing), missing)...)
	}

	enough := fmt.Sprintf("there is enough for %d (%s each)", c.Wanted, need.size)

	switch fit := fitting(need, c.Wanted, quotas); {
	case fit < c.Wanted:
		results = append(results, s.short(fmt.Sprintf("there is enough for %d of %d machines (%s each)", fit, c.Wanted, need.size),
			shortages(need.of(c.Wanted), quotas))...)
	case len(quotas) == 0:
		results = append(results, s.ok(enough)...)
	default:
		results = append(results, c.okIfCalculated(s, enough)...)
	}

	return append(results, c.checkPeak(need, quotas)...)
}

// checkPeak checks the phases with more usage.
func (c *classChecker) checkPeak(need *demand, quotas []corev1.ResourceQuota) []Result {
	s := c.about(checkQuotaPeak, "ResourceQuotas of Namespace "+c.namespace)

	for _, p := range need.phases {
		if missing := shortages(p.usage, quotas); len(missing) > 0 {
			return s.short("probably not enough "+p.name+" (temporary claims and CDI's pods count too): "+joinedShortages(missing), missing)
		}
	}

	if len(need.phases) == 0 {
		return nil
	}

	return s.ok("there is enough while disks are created")
}

// of returns the usage of n machines and their golden image.
func (d *demand) of(n int) corev1.ResourceList {
	return sum(times(d.one, int64(n)), d.image)
}

// fitting returns the number of additional machines, up to a maximum, that the quotas allow.
func fitting(need *demand, most int, quotas []corev1.ResourceQuota) int {
	for n := most; n > 0; n-- {
		if len(shortages(need.of(n), quotas)) == 0 {
			return n
		}
	}

	return 0
}

// machineUsage returns the usage of one machine during its lifetime.
func machineUsage(requests, limits corev1.ResourceList, disks []disk, secrets int) corev1.ResourceList {
	u := sum(podUsage(requests, limits), counted(corev1.ResourceSecrets, int64(secrets)), corev1.ResourceList{
		"count/virtualmachines.kubevirt.io": decimal(1), "count/virtualmachineinstances.kubevirt.io": decimal(1),
	})
	for _, d := range disks {
		u = sum(u, diskUsage(d))
	}

	return u
}

// diskUsage returns the usage of a disk or a golden image during its lifetime.
func diskUsage(d disk) corev1.ResourceList {
	return sum(claimUsage(d), corev1.ResourceList{"count/datavolumes.cdi.kubevirt.io": decimal(1)})
}

// fillingUsage returns the additional usage while a disk is filled: a claim that becomes the disk
// in the end; for an import, which may have to be unpacked, a claim for scratch space; and one pod
// that fills the disk, or two for a copy.
func fillingUsage(d disk, pod corev1.ResourceRequirements) corev1.ResourceList {
	u := sum(claimUsage(d), podUsage(pod.Requests, pod.Limits))

	switch {
	case d.cloned && d.copied:
		return sum(u, podUsage(pod.Requests, pod.Limits))
	case !d.cloned && !d.blank:
		return sum(u, claimUsage(d))
	default:
		return u
	}
}

func podUsage(requests, limits corev1.ResourceList) corev1.ResourceList {
	u := sum(counted(corev1.ResourcePods, 1), requests)

	for prefix, amounts := range map[corev1.ResourceName]corev1.ResourceList{"requests.": requests, "limits.": limits} {
		for name, amount := range amounts {
			u[prefix+name] = amount
		}
	}

	return u
}

func claimUsage(d disk) corev1.ResourceList {
	prefix := corev1.ResourceName(d.class) + ".storageclass.storage.k8s.io/"

	return sum(counted(corev1.ResourcePersistentVolumeClaims, 1), corev1.ResourceList{
		corev1.ResourceRequestsStorage:                 d.size,
		prefix + corev1.ResourcePersistentVolumeClaims: decimal(1),
		prefix + corev1.ResourceRequestsStorage:        d.size,
	})
}

// counted returns the usage of n objects. Quotas have two names for it.
func counted(resourceName corev1.ResourceName, n int64) corev1.ResourceList {
	return corev1.ResourceList{resourceName: decimal(n), "count/" + resourceName: decimal(n)}
}

// shortage is a resource of which a quota has less left than is needed.
type shortage struct {
	quota      string
	name       corev1.ResourceName
	need, left resource.Quantity
	// enough is the bound at which the quota suffices.
	enough resource.Quantity
}

// shortages returns the shortages in quotas, in a stable order. It ignores quotas with scopes.
func shortages(need corev1.ResourceList, quotas []corev1.ResourceQuota) []shortage {
	var list []shortage

	for i := range quotas {
		quota := &quotas[i]
		if scoped(quota) {
			continue
		}

		left := minus(quota.Spec.Hard, quota.Status.Used)

		for _, name := range slices.Sorted(maps.Keys(left)) {
			amount, counts := need[name]
			if !counts || amount.Cmp(left[name]) <= 0 {
				continue
			}

			enough := quota.Status.Used[name].DeepCopy()
			enough.Add(amount)
			list = append(list, shortage{quota: quota.Name, name: name, need: amount, left: left[name], enough: enough})
		}
	}

	return list
}

func joinedShortages(missing []shortage) string {
	texts := make([]string, 0, len(missing))
	for _, s := range missing {
		texts = append(texts, fmt.Sprintf("ResourceQuota %s has %s of %s left, but about %s is needed", s.quota, roundedDown(s.name, s.left), s.name, roundedUp(s.name, s.need)))
	}

	return strings.Join(texts, "; ")
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
