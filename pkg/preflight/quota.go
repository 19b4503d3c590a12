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

// manyMachines is where counting ends for how many machines there is enough.
const manyMachines = 100

func (s *site) listQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	return some[corev1.ResourceQuota](ctx, s.looker.clients.Kubernetes.CoreV1().ResourceQuotas(s.namespace), maxObjects)
}

// demand is what a class's machines take from quotas.
type demand struct {
	sizing sizing
	one    usage
	// image is for the golden image, if it is not there yet.
	image usage
	// phases are what is there for a while, with the first machine.
	phases []phase
	// size says how large a machine is, for people.
	size string
}

// phase is a time at which more is used than later.
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

// checkSum compares what all classes want together with what quotas leave: each by itself may have enough.
func (s *site) checkSum(ctx context.Context) []Result {
	quotas, err := s.quotas()
	if err != nil || len(quotas) == 0 || len(s.classes) < 2 {
		return nil // Why there are none to be seen is said of each class.
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

// imageMissing says whether the golden image is still to be made. If that cannot be seen, it is said elsewhere.
func (c *classSite) imageMissing(ctx context.Context) bool {
	_, err := ask(ctx, func(ctx context.Context) (*cdiv1beta1.DataVolume, error) {
		return c.looker.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Get(ctx, c.image.Name, metav1.GetOptions{})
	})

	return absent(err)
}

// checkQuota compares what machines need, as long as they live and for the moment in which their disks are made, with what quotas leave.
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

// enough is good only as far as the machine's size is calculated, if it counts at all.
func (c *classSite) enough(v view, subject string, need *demand, wanted int, quotas []corev1.ResourceQuota) Result {
	ok := v.ok(checkQuota, subject, fmt.Sprintf("there is enough for %d of %s", wanted, need.size))
	if len(quotas) == 0 {
		return ok
	}

	return c.asCounted(need.sizing, ok)
}

// checkPeak looks at the moments in which more is used.
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

// raise returns the commands that raise quotas, each once, to these bounds.
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
