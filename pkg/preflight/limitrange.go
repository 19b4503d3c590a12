package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// checkLimitRanges compares the machine's pod and claims, and the pods that populate its disks,
// with the bounds in LimitRanges.
func (c *classChecker) checkLimitRanges(context.Context) []Result {
	s := c.about(checkLimitRange, "LimitRanges of Namespace "+c.namespace)

	ranges, err := c.limitRanges()
	if err != nil {
		return s.notChecked(err, kubectlIn(c.namespace, "describe limitranges"))
	}

	disks := c.disks()
	objects := slices.Concat(containersOf(c.vm, c.sizing()), claimsOf(disks))

	// Without CDI's configuration, the size of its pods is unknown.
	if pod := c.storages().config.Status.DefaultPodResourceRequirements; pod != nil && len(disks) > 0 {
		objects = append(objects, withPod(limited{name: "a CDI pod", requests: pod.Requests, limits: pod.Limits})...)
	}

	switch conflicts := conflictsWith(ranges, objects); {
	case len(conflicts) > 0:
		return s.warn("probably refuse the machine: "+strings.Join(conflicts, "; "), kubectlIn(c.namespace, "edit limitranges")+", or make the machine smaller")
	case len(ranges) == 0:
		return s.ok("none exist")
	default:
		return c.okIfCalculated(s, fmt.Sprintf("CPU and memory of the machines' pods and the sizes of their claims comply with all %d", len(ranges)))
	}
}

// limited is a container, a pod or a claim that a LimitRange may reject. A resource without a limit
// gets the default limit of the LimitRange.
type limited struct {
	kind             corev1.LimitType
	name             string
	requests, limits corev1.ResourceList
}

// withPod returns the containers of a pod, and the pod.
func withPod(containers ...limited) []limited {
	pod := limited{kind: corev1.LimitTypePod, name: "the pod"}

	for i := range containers {
		containers[i].kind = corev1.LimitTypeContainer
		pod.requests = sum(pod.requests, containers[i].requests)
	}

	return append(containers, pod)
}

// containersOf returns a machine's pod and its containers: the one with the guest, and the one that
// logs its serial console.
func containersOf(vm *kubevirtv1.VirtualMachine, s sizing) []limited {
	domain := &vm.Spec.Template.Spec.Domain
	requests, limits := podResources(vm, s)
	console := consoleOf(domain)

	// KubeVirt sets the other limits only if a quota requires them.
	maps.DeleteFunc(limits, func(name corev1.ResourceName, _ resource.Quantity) bool {
		_, given := domain.Resources.Limits[name]

		return !given
	})

	return withPod(limited{name: "the container compute", requests: minus(requests, console), limits: limits},
		limited{name: "the container guest-console-log", requests: console, limits: consoleLimits})
}

// claimsOf returns the claims of disks, except for those whose size is that of their source.
func claimsOf(disks []disk) []limited {
	var list []limited

	for _, d := range disks {
		if !d.size.IsZero() {
			size := corev1.ResourceList{corev1.ResourceStorage: d.size}
			list = append(list, limited{kind: corev1.LimitTypePersistentVolumeClaim, name: "a claim", requests: size, limits: size})
		}
	}

	return list
}

// conflictsWith returns the violations of LimitRanges by the objects.
func conflictsWith(ranges []corev1.LimitRange, objects []limited) []string {
	var list []string

	for i := range ranges {
		for _, item := range ranges[i].Spec.Limits {
			for _, object := range objects {
				if object.kind == item.Type {
					list = append(list, object.conflicts(ranges[i].Name, item)...)
				}
			}
		}
	}

	return list
}

// conflicts returns the bounds in an item of a LimitRange that the object violates. For a resource
// without a limit, the default limit is also a maximum: a request must not exceed it.
func (l limited) conflicts(limitRange string, item corev1.LimitRangeItem) []string {
	var list []string

	for _, name := range slices.Sorted(maps.Keys(l.requests)) {
		request := l.requests[name]

		limit, given := l.limits[name]
		if !given {
			limit = request
		}

		add := func(amount resource.Quantity, violates string, bound resource.Quantity) {
			list = append(list, fmt.Sprintf("%s of %s, %s, %s of %s in LimitRange %s", name, l.name, amount.String(), violates, bound.String(), limitRange))
		}

		if most, ok := item.Max[name]; ok && limit.Cmp(most) > 0 {
			add(limit, "exceeds the max", most)
		}

		if most, ok := item.Default[name]; ok && !given && request.Cmp(most) > 0 {
			add(request, "exceeds the default", most)
		}

		if least, ok := item.Min[name]; ok && request.Cmp(least) < 0 {
			add(request, "is below the min", least)
		}
	}

	return list
}
