package preflight

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// checkCapacity checks whether the nodes are large enough for the class's machines, and whether
// they have enough free room now.
func (c *classChecker) checkCapacity(ctx context.Context) []Result {
	sizing := c.sizing(ctx)
	requests, _ := podResources(c.vm, sizing)
	v, subject := c.view(), "machine with "+describe(requests, nil)

	nodes, err := c.hosts()
	if err != nil {
		return []Result{v.notChecked(checkCapacity, subject, err, describeNodes(c.Machine.Spec))}
	}

	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !in(&n, c.Machine.Spec) || c.unfit(&n) != "" })
	if len(nodes) == 0 {
		return nil // checkZone reports this.
	}

	if most := fittingOn(nodes, nil, requests); most == 0 {
		return []Result{v.fail(checkCapacity, subject, "is larger than any node of the zone",
			"make the machine smaller (providerSpec.cpu, providerSpec.memory, providerSpec.resources), or add larger nodes to the zone")}
	}

	loads, err := c.loads()
	if err != nil {
		return []Result{v.notChecked(checkCapacity, subject, err, describeNodes(c.Machine.Spec))}
	}

	free, wanted := fittingOn(nodes, loads, requests), c.Wanted
	if free < wanted {
		return []Result{v.warn(checkCapacity, subject, fmt.Sprintf("the zone currently has room for %d machines, but %d are needed", free, wanted),
			"add nodes to the zone, or free resources on its nodes: kubectl describe nodes --selector="+selector(c.Machine.Spec))}
	}

	return []Result{c.ifCalculated(sizing, v.ok(checkCapacity, subject, fmt.Sprintf("the zone currently has room for %d machines", free)))}
}

// ifCalculated turns an ok result into a warning if the machine's size is only partly calculated.
func (c *classChecker) ifCalculated(s sizing, r Result) Result {
	why := notCalculated(c.vm, s)
	if why == "" || r.Level != OK {
		return r
	}

	return c.view().warn(r.Check, r.Subject, "not fully calculated, because "+why+"; partial result: "+r.Message,
		"compare with the pod of a running machine: "+kubectlIn(c.namespace, "get pods --selector=kubevirt.io=virt-launcher --output=yaml"))
}

func (c *classChecker) sizing(ctx context.Context) sizing {
	found, err := c.kubeVirt()
	if err != nil {
		found = nil // Assume KubeVirt's defaults; checkKubeVirt reports the error.
	}

	s := sizingOf(found)
	s.instancetype = c.instancetype(ctx)

	return s
}

// fittingOn returns the number of pods with these requests that fit on the nodes beside other pods.
func fittingOn(nodes []corev1.Node, others []load, requests corev1.ResourceList) int {
	total := 0

	for i := range nodes {
		free := nodes[i].Status.Allocatable.DeepCopy()

		for _, other := range others {
			if other.node == nodes[i].Name {
				subtract(free, other.requests)
			}
		}

		total += times(free, requests)
	}

	return total
}

// podRequests returns the requests that the scheduler counts, except those of init containers that
// terminate: they rarely request more than the other containers.
func podRequests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	addAll(sum, pod.Spec.Overhead)

	for i := range pod.Spec.Containers {
		addAll(sum, pod.Spec.Containers[i].Resources.Requests)
	}

	for i := range pod.Spec.InitContainers {
		if ptr.Deref(pod.Spec.InitContainers[i].RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			addAll(sum, pod.Spec.InitContainers[i].Resources.Requests)
		}
	}

	return sum
}

func addAll(into, amounts corev1.ResourceList) {
	for name, amount := range amounts {
		into[name] = plus(into[name], amount)
	}
}

func subtract(from, amounts corev1.ResourceList) {
	for name, amount := range amounts {
		if left, ok := from[name]; ok {
			left.Sub(amount)
			from[name] = left
		}
	}
}

// times returns the number of pods with these requests that fit into the free resources.
func times(free, requests corev1.ResourceList) int {
	most := free.Pods().Value()

	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		left, need := free[name], requests[name]
		if need.Sign() > 0 {
			most = min(most, left.MilliValue()/need.MilliValue())
		}
	}

	return int(max(most, 0))
}
