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

func (c *checker) listQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	return listFew[corev1.ResourceQuota](ctx, c.viewer.clients.Kubernetes.CoreV1().ResourceQuotas(c.namespace), maxObjects)
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

func (c *classChecker) demand(ctx context.Context) *demand {
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
		d.phases = append(d.phases, phase{"while the disks of a machine are populated", d.one.and(filling)})
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
func (c *checker) checkSum(ctx context.Context) []Result {
	quotas, err := c.quotas()
	if err != nil || len(quotas) == 0 || len(c.classes) < 2 {
		return nil // checkQuota reports an error for each class.
	}

	sum, images, machines := usage{}, map[string]bool{}, 0

	for i := range c.classes {
		class := &c.classes[i]
		if class.Wanted == 0 {
			continue
		}

		need, wanted := class.demand(ctx), class.Wanted
		sum, machines = sum.and(need.one.times(int64(wanted))), machines+wanted

		if class.image != nil && !images[class.image.Name] {
			sum, images[class.image.Name] = sum.and(need.image), true
		}
	}

	v, subject := view{identity: c.viewer}, "ResourceQuotas of Namespace "+c.namespace

	if missing := shortages(sum, quotas); len(missing) > 0 {
		return []Result{v.short(checkQuota, Warning, subject, fmt.Sprintf("there is not enough for all %d machines that %d MachineClasses need: %s",
			machines, len(c.classes), joinedShortages(missing)), missing)}
	}

	return []Result{v.ok(checkQuota, subject, fmt.Sprintf("there is enough for all %d machines that %d MachineClasses need, as far as calculated",
		machines, len(c.classes)))}
}

// imageMissing reports whether the golden image does not exist
// yet. Other errors are reported elsewhere.
func (c *classChecker) imageMissing(ctx context.Context) bool {
	_, err := ask(ctx, func(ctx context.Context) (*cdiv1beta1.DataVolume, error) {
		return c.viewer.clients.CDI.CdiV1beta1().DataVolumes(c.namespace).Get(ctx, c.image.Name, metav1.GetOptions{})
	})

	return absent(err)
}

// checkQuota compares the free quota with the usage of machines during their
// lifetime and while their disks are created.
func (c *classChecker) checkQuota(ctx context.Context) []Result {
	v, subject := c.view(), "ResourceQuotas of Namespace "+c.namespace

	quotas, err := c.quotas()
	if err != nil {
		return []Result{v.notChecked(checkQuota, subject, err, kubectlIn(c.namespace, "describe resourcequotas"))}
	}

	var (
		need    = c.demand(ctx)
		results []Result
	)

	if names := scopedNames(quotas); len(names) > 0 {
		results = append(results, v.warn(checkQuota, "ResourceQuotas "+shortened(names), "not calculated: the quotas have scopes",
			kubectlIn(c.namespace, "describe resourcequotas")))
	}

	if c.Wanted == 0 {
		return append(results, v.ok(checkQuota, subject, fmt.Sprintf("no more machines are needed; there is enough for %d more (%s each)",
			fitting(need.one, need.image, manyMachines, quotas), need.size)))
	}

	if missing := shortages(need.one.and(need.image), quotas); len(missing) > 0 {
		return append(results, c.shortageResult(v, checkQuota, subject, "for one machine ("+need.size+")", missing))
	}

	if wanted := c.Wanted; wanted > 1 && fitting(need.one, need.image, wanted, quotas) < wanted {
		results = append(results, v.short(checkQuota, Warning, subject,
			fmt.Sprintf("there is enough for %d of %d machines (%s each)", fitting(need.one, need.image, wanted, quotas), wanted, need.size),
			shortages(need.one.times(int64(wanted)).and(need.image), quotas)))
	} else {
		results = append(results, c.enough(v, subject, need, wanted, quotas))
	}

	return append(results, c.checkPeak(v, subject, need, quotas)...)
}

// enough returns the ok result, or a warning if quotas exist and the
// machine's size is only partly calculated.
func (c *classChecker) enough(v view, subject string, need *demand, wanted int, quotas []corev1.ResourceQuota) Result {
	ok := v.ok(checkQuota, subject, fmt.Sprintf("there is enough for %d (%s each)", wanted, need.size))
	if len(quotas) == 0 {
		return ok
	}

	return c.ifCalculated(need.sizing, ok)
}

// checkPeak checks the phases with more usage.
func (c *classChecker) checkPeak(v view, subject string, need *demand, quotas []corev1.ResourceQuota) []Result {
	if len(need.phases) == 0 {
		return nil
	}

	for _, p := range need.phases {
		if missing := shortages(p.extra.and(need.image), quotas); len(missing) > 0 {
			return []Result{c.shortageResult(v, checkQuotaPeak, subject, p.name+" (temporary claims and CDI's pods count too)", missing)}
		}
	}

	return []Result{v.ok(checkQuotaPeak, subject, "there is enough while disks are created")}
}

func (c *classChecker) shortageResult(v view, check, subject, purpose string, missing []shortage) Result {
	return v.short(check, Error, subject, "not enough "+purpose+": "+joinedShortages(missing), missing)
}

func joinedShortages(missing []shortage) string {
	texts := make([]string, 0, len(missing))
	for _, l := range missing {
		texts = append(texts, l.String())
	}

	return strings.Join(texts, "; ")
}

// patchQuotas returns the commands that raise each quota once to the given bounds.
func patchQuotas(namespace string, quotas []string, bounds map[string]corev1.ResourceList) string {
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
