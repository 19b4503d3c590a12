package diagnose

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// placement is the scheduler's account of a pod that fits nowhere (FitError in k8s.io/kubernetes/pkg/scheduler/framework/types.go):
// of how many provider nodes it knows, and how many of them it turned down for which reason. It tries a node's closure and taints
// first, then labels, then room and devices, then volumes, then the spread, and ends with the first that does not suit
// (k8s.io/kubernetes/pkg/scheduler/apis/config/v1/default_plugins.go). So a node that is turned down for its volumes has room.
type placement struct {
	nodes    int
	turnDown map[string]int
}

var (
	account = regexp.MustCompile(`^0/(\d{1,6}) nodes are available: (.*)$`)
	// item is a reason, after the number of nodes that it is given for.
	item = regexp.MustCompile(`^(\d{1,6}) (.+)$`)
)

// placementOf reads the scheduler's words. What is no account has no nodes.
func placementOf(words string) placement {
	p := placement{turnDown: map[string]int{}}

	found := account.FindStringSubmatch(words)
	if found == nil {
		return p
	}

	p.nodes, _ = strconv.Atoi(found[1]) // These are a few digits.

	for _, reason := range strings.Split(strings.TrimSuffix(found[2], "."), ", ") {
		if counted := item.FindStringSubmatch(reason); counted != nil {
			p.turnDown[counted[2]], _ = strconv.Atoi(counted[1])
		}
	}

	return p
}

const insufficient = "Insufficient "

// full returns how many nodes lack room or devices. Each may lack several.
func (p placement) full() int {
	left := p.nodes

	for reason, nodes := range p.turnDown {
		if !strings.HasPrefix(reason, insufficient) && reason != "Too many pods" {
			left -= nodes
		}
	}

	return left
}

// lacks says whether all nodes lack a resource that would do otherwise: that some have no room either changes nothing then.
func (p placement) lacks(wanted func(resource string) bool) bool {
	full := p.full()

	for reason, nodes := range p.turnDown {
		if resource, ok := strings.CutPrefix(reason, insufficient); ok && wanted(resource) && nodes >= full {
			return true
		}
	}

	return false
}

// isDevice matches extended resources, whose names begin with a domain.
func isDevice(resource string) bool {
	domain, _, found := strings.Cut(resource, "/")

	return found && strings.Contains(domain, ".")
}

// isKVM matches what virt-handler offers on every node with hardware virtualization, and more of it than the node takes pods
// (kubevirt.io/kubevirt/cmd/virt-handler): it is missing, not used up.
func isKVM(resource string) bool { return resource == "devices.kubevirt.io/kvm" }

// schedulerSays returns the scheduler's latest words of an instance's pod, if it is known that it says them still. KubeVirt copies only
// the first ones (pkg/controller/conditions.go), which are often those of a scheduler that has not seen a claim yet, and lets
// them stand when the pod is gone: it writes down which pods there are at the same time.
func schedulerSays(instance *kubevirtv1.VirtualMachineInstance, first string, pods []corev1.Pod) (words string, still bool) {
	if len(instance.Status.ActivePods) == 0 {
		return "", false
	}

	words = first

	for i := range pods {
		switch c := podCondition(&pods[i], corev1.PodScheduled); {
		case c == nil:
		case c.Status == corev1.ConditionTrue:
			return "", false
		case c.Status == corev1.ConditionFalse && c.Message != "":
			words = c.Message
		}
	}

	return withoutPreemption(words), true
}

// withoutPreemption drops what the scheduler says of pods that it might evict, and of claims that it might deallocate: it says that of
// the nodes that it has turned down, in the same words.
func withoutPreemption(words string) string {
	words, _, _ = strings.Cut(words, " preemption: ")
	words = strings.TrimRight(words, " ,")

	for _, said := range []string{"no new claims to deallocate", "still not schedulable"} {
		words = strings.TrimSuffix(words, said)
	}

	return strings.TrimRight(words, " ")
}
