package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// manyMachines is the upper bound when counting how many machines fit into the quotas.
const manyMachines = 100

func (s *site) listQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	return some[corev1.ResourceQuota](ctx, s.looker.clients.Kubernetes.CoreV1().ResourceQuotas(s.namespace), maxObjects)
}

// demand is the quota usage of a class's machines.
type demand struct {
	sizing sizing
	one    usage
	// image is the usage of the golden image, if it does not exist yet.
	image usage
	// phases are the temporary peaks while the first machine is created.
	phases []phase
	// size is the size of a machine, for people.
	size string
}

// phase is a period with more usage than later.
type phase struct {
	name  string
	extra usage
}

func (c *classSite) demand(ctx context.Context) *demand {
	found := c.storages()
	sizing := c.sizing(ctx)
	requests, limits := podResources(c.vm, sizing)
	pod := ptr.Deref(found.config.Status.DefaultPodResourceRequirements, corev1.ResourceRequirements{})

	var (
		volumes []volume
		filling = usage{}
	)

	for _, claim := range c.claims() {
		v := volumeOf(&claim, found)
		volumes = append(volumes, v)
		filling = filling.and(fillingUsage(v, pod))
	}

	d := &demand{
		sizing: sizing, one: machineUsage(requests, limits, volumes, len(c.secrets)), image: usage{}, size: describe(requests, volumes),
	}
	if len(volumes) > 0 {
		d.phases = append(d.phases, phase{"while the disks of a machine are filled", d.one.and(filling)})
	}

	if c.image != nil && c.imageMissing(ctx) {
		v := volumeOf(&claim{path: rootVolumePath, spec: &c.image.Spec}, found)
		d.image = imageUsage(v)
		d.phases = append([]phase{{"while the golden image is imported", fillingUsage(v, pod)}}, d.phases...)
	}

	return d
}

// checkSum compares the demand of all classes together with the free
// quota: it may be enough for each class alone.
func (s *site) checkSum(ctx context.Context) []Result {
	quotas, err := s.quotas()
	if err != nil || len(quotas) == 0 || len(s.classes) < 2 {
		return nil // checkQuota reports an error for each class.
	}

	sum, images, machines := usage{}, map[string]bool{}, 0

	for i := range s.classes {
		c := &s.classes[i]
		if c.Wanted == 0 {
			continue
		}

		need, wanted := c.demand(ctx), c.Wanted
		sum, machines = sum.and(need.one.times(int64(wanted))), machines+wanted

		if c.image != nil && !images[c.image.Name] {
			sum, images[c.image.Name] = sum.and(need.image), true
		}
	}

	v, subject := view{identity: s.looker}, "ResourceQuotas of Namespace "+s.namespace

	if missing := lacks(sum, quotas); len(missing) > 0 {
		return []Result{v.short(checkQuota, Warning, subject, fmt.Sprintf("there is not enough for all %d machines that %d MachineClasses want: %s",
			machines, len(s.classes), lackedIn(missing)), missing)}
	}

	return []Result{v.ok(checkQuota, subject, fmt.Sprintf("there is enough for all %d machines that %d MachineClasses want, as far as they are calculated",
		machines, len(s.classes)))}
}

// imageMissing reports whether the golden image does not exist
// yet. Other errors are reported elsewhere.
func (c *classSite) imageMissing(ctx context.Context) bool {
	_, err := ask(ctx, func(ctx context.Context) (*cdiv1beta1.DataVolume, error) {
		return c.looker.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Get(ctx, c.image.Name, metav1.GetOptions{})
	})

	return absent(err)
}

// checkQuota compares the free quota with the usage of machines during their
// lifetime and while their disks are created.
func (c *classSite) checkQuota(ctx context.Context) []Result {
	v, subject := c.view(), "ResourceQuotas of Namespace "+c.namespace

	quotas, err := c.quotas()
	if err != nil {
		return []Result{v.unseen(checkQuota, subject, err, kubectlIn(c.namespace, "describe resourcequotas"))}
	}

	var (
		need    = c.demand(ctx)
		results []Result
	)

	if names := scopedNames(quotas); len(names) > 0 {
		results = append(results, v.warn(checkQuota, "ResourceQuotas "+shortened(names), "have scopes: it is not calculated whether machines fit in",
			kubectlIn(c.namespace, "describe resourcequotas")))
	}

	if c.Wanted == 0 {
		return append(results, v.ok(checkQuota, subject, fmt.Sprintf("no more machines are wanted; there is enough for %d more of %s",
			fitting(need.one, need.image, manyMachines, quotas), need.size)))
	}

	if missing := lacks(need.one.and(need.image), quotas); len(missing) > 0 {
		return append(results, c.lacking(v, checkQuota, subject, "for one machine ("+need.size+")", missing))
	}

	if wanted := c.Wanted; wanted > 1 && fitting(need.one, need.image, wanted, quotas) < wanted {
		results = append(results, v.short(checkQuota, Warning, subject,
			fmt.Sprintf("there is enough for %d of %d machines (%s each)", fitting(need.one, need.image, wanted, quotas), wanted, need.size),
			lacks(need.one.times(int64(wanted)).and(need.image), quotas)))
	} else {
		results = append(results, c.enough(v, subject, need, wanted, quotas))
	}

	return append(results, c.checkPeak(v, subject, need, quotas)...)
}

// enough returns the ok result, or a warning if quotas exist and the
// machine's size is only partly calculated.
func (c *classSite) enough(v view, subject string, need *demand, wanted int, quotas []corev1.ResourceQuota) Result {
	ok := v.ok(checkQuota, subject, fmt.Sprintf("there is enough for %d of %s", wanted, need.size))
	if len(quotas) == 0 {
		return ok
	}

	return c.asCounted(need.sizing, ok)
}

// checkPeak checks the phases with more usage.
func (c *classSite) checkPeak(v view, subject string, need *demand, quotas []corev1.ResourceQuota) []Result {
	if len(need.phases) == 0 {
		return nil
	}

	for _, p := range need.phases {
		if missing := lacks(p.extra.and(need.image), quotas); len(missing) > 0 {
			return []Result{c.lacking(v, checkQuotaPeak, subject, p.name+": temporary claims and CDI's pods count too", missing)}
		}
	}

	return []Result{v.ok(checkQuotaPeak, subject, "there is enough while disks are made")}
}

func (c *classSite) lacking(v view, check, subject, what string, missing []lack) Result {
	return v.short(check, Error, subject, "not enough "+what+": "+lackedIn(missing), missing)
}

func lackedIn(missing []lack) string {
	texts := make([]string, 0, len(missing))
	for _, l := range missing {
		texts = append(texts, l.String())
	}

	return strings.Join(texts, "; ")
}

// raise returns the commands that raise each quota once to the given bounds.
func raise(namespace string, quotas []string, bounds map[string]corev1.ResourceList) string {
	commands := make([]string, 0, len(quotas))

	for _, quota := range quotas {
		hard := make([]string, 0, len(bounds[quota]))

		for _, name := range slices.Sorted(maps.Keys(bounds[quota])) {
			bound := bounds[quota][name]
			hard = append(hard, fmt.Sprintf("%q:%q", name, bound.String()))
		}

		commands = append(commands, kubectlIn(namespace, "patch resourcequota", quota)+
			" --type=merge --patch="+quoted(`{"spec":{"hard":{`+strings.Join(hard, ",")+`}}}`))
	}

	return strings.Join(commands, " && ")
}
