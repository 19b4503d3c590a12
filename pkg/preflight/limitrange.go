package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func (c *checker) listLimitRanges(ctx context.Context) ([]corev1.LimitRange, error) {
	return listFew[corev1.LimitRange](ctx, c.viewer.clients.Kubernetes.CoreV1().LimitRanges(c.namespace), maxObjects)
}

// checkLimitRanges compares the machine's pod and claims with the bounds in LimitRanges.
func (c *classChecker) checkLimitRanges(ctx context.Context) []Result {
	v, subject := c.view(), "LimitRanges of Namespace "+c.namespace
	command := kubectlIn(c.namespace, "describe limitranges")

	ranges, err := c.limits()
	if err != nil {
		return []Result{v.notChecked(checkLimitRange, subject, err, command)}
	}

	var volumes []volume
	for _, claim := range c.claims() {
		volumes = append(volumes, volumeOf(&claim, c.storages()))
	}

	sizing := c.sizing(ctx)

	conflicts := append(conflictsWith(ranges, containersOf(c.vm, sizing), volumes), c.fillingConflicts(ranges, volumes)...)
	if len(conflicts) > 0 {
		return []Result{v.fail(checkLimitRange, subject, strings.Join(conflicts, "; "),
			kubectlIn(c.namespace, "edit limitranges")+", or make the machine smaller")}
	}

	if len(ranges) == 0 {
		return []Result{v.ok(checkLimitRange, subject, "none exist")}
	}

	return []Result{c.ifCalculated(sizing, v.ok(checkLimitRange, subject, fmt.Sprintf(
		"CPU and memory of the machines' pods and the sizes of their claims comply with all %d", len(ranges))))}
}

// fillingConflicts returns the violations of LimitRanges by the pods that populate disks, if CDI's
// configuration specifies their size.
func (c *classChecker) fillingConflicts(ranges []corev1.LimitRange, volumes []volume) []string {
	pod := c.storages().config.Status.DefaultPodResourceRequirements
	if pod == nil || len(volumes) == 0 {
		return nil
	}

	return conflictsWith(ranges, []container{{name: "a CDI pod", requests: pod.Requests, limits: pod.Limits}}, nil)
}

// container is a container of a pod that a LimitRange may reject. A resource without a limit gets
// the default limit of the LimitRange.
type container struct {
	name             string
	requests, limits corev1.ResourceList
}

// containersOf returns the containers of a machine's pod: the one with the guest,
// and the one that logs its serial console.
func containersOf(vm *kubevirtv1.VirtualMachine, s sizing) []container {
	domain := &vm.Spec.Template.Spec.Domain
	requests, limits := podResources(vm, s)
	console := consoleOf(domain)
	subtract(requests, console)

	guest := container{name: "the container compute", requests: requests, limits: corev1.ResourceList{}}
	for name := range domain.Resources.Limits {
		guest.limits[name] = limits[name]
	}

	return []container{guest, {name: "the container guest-console-log", requests: console, limits: consoleLimits()}}
}

// conflictsWith returns the violations of LimitRanges by a machine's pod and claims.
func conflictsWith(ranges []corev1.LimitRange, containers []container, volumes []volume) []string {
	pod := container{name: "the pod", requests: corev1.ResourceList{}}
	for _, c := range containers {
		addAll(pod.requests, c.requests)
	}

	var list []string

	for i := range ranges {
		for _, item := range ranges[i].Spec.Limits {
			switch item.Type {
			case corev1.LimitTypeContainer:
				list = append(list, conflictsOf(&ranges[i], item, containers)...)
			case corev1.LimitTypePod:
				list = append(list, pod.beyond(&ranges[i], item)...)
			case corev1.LimitTypePersistentVolumeClaim:
				list = append(list, claimsBeyond(&ranges[i], item, volumes)...)
			}
		}
	}

	return list
}

func conflictsOf(of *corev1.LimitRange, item corev1.LimitRangeItem, containers []container) []string {
	var list []string
	for _, c := range containers {
		list = append(list, c.beyond(of, item)...)
	}

	return list
}

func claimsBeyond(of *corev1.LimitRange, item corev1.LimitRangeItem, volumes []volume) []string {
	var list []string

	for _, v := range volumes {
		if !v.size.IsZero() { // Otherwise the size is that of the source.
			size := corev1.ResourceList{corev1.ResourceStorage: v.size}
			list = append(list, container{name: "a claim", requests: size, limits: size}.beyond(of, item)...)
		}
	}

	return list
}

// beyond returns the bounds of a LimitRange that the container violates. For a resource without a
// limit, the default limit is also a maximum: a request must not exceed it.
func (c container) beyond(of *corev1.LimitRange, item corev1.LimitRangeItem) []string {
	var list []string

	for _, name := range slices.Sorted(maps.Keys(c.requests)) {
		request := c.requests[name]

		limit, limited := c.limits[name]
		if !limited {
			limit = request
		}

		if most, ok := item.Max[name]; ok && limit.Cmp(most) > 0 {
			list = append(list, fmt.Sprintf("%s of %s, %s, exceeds the max of %s in LimitRange %s", name, c.name, limit.String(), most.String(), of.Name))
		}

		if most, ok := item.Default[name]; ok && !limited && request.Cmp(most) > 0 {
			list = append(list, fmt.Sprintf("%s of %s, %s, exceeds the default of %s in LimitRange %s", name, c.name, request.String(), most.String(), of.Name))
		}

		if least, ok := item.Min[name]; ok && request.Cmp(least) < 0 {
			list = append(list, fmt.Sprintf("%s of %s, %s, is below the min of %s in LimitRange %s", name, c.name, request.String(), least.String(), of.Name))
		}
	}

	return list
}
