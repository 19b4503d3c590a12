// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// placement is the scheduler's report on a pod that fits on no node (FitError in
// k8s.io/kubernetes/pkg/scheduler/framework/types.go): the number of provider nodes that it knows,
// and how many of them it rejected for each reason. For each node, it checks cordon and taints
// first, then labels, then capacity and devices, then volumes, then the spread, and stops at the
// first failure (k8s.io/kubernetes/pkg/scheduler/apis/config/v1/default_plugins.go). Therefore, a
// node that is rejected because of volumes has capacity.
type placement struct {
	nodes    int
	rejected map[string]int
}

var (
	fitError = regexp.MustCompile(`^0/(\d{1,6}) nodes are available: (.*)$`)
	// rejection is a reason, after the number of nodes that it applies to.
	rejection = regexp.MustCompile(`^(\d{1,6}) (.+)$`)
)

// placementOf parses the scheduler's message. Any other text results in no nodes.
func placementOf(words string) placement {
	p := placement{rejected: map[string]int{}}

	found := fitError.FindStringSubmatch(words)
	if found == nil {
		return p
	}

	p.nodes, _ = strconv.Atoi(found[1]) // The pattern allows few digits.

	for _, reason := range strings.Split(strings.TrimSuffix(found[2], "."), ", ") {
		if counted := rejection.FindStringSubmatch(reason); counted != nil {
			p.rejected[counted[2]], _ = strconv.Atoi(counted[1])
		}
	}

	return p
}

const insufficient = "Insufficient "

// full returns the number of nodes that lack capacity or devices. Each may lack several.
func (p placement) full() int {
	left := p.nodes

	for reason, nodes := range p.rejected {
		if !strings.HasPrefix(reason, insufficient) && reason != "Too many pods" {
			left -= nodes
		}
	}

	return left
}

// lacks reports whether all otherwise suitable nodes lack a resource. It then does not matter that
// some of them also lack capacity.
func (p placement) lacks(wanted func(resource string) bool) bool {
	full := p.full()

	for reason, nodes := range p.rejected {
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

// isHypervisor matches the resources that virt-handler offers on every node with hardware
// virtualization, in a larger number than the node accepts pods (kubevirt.io/kubevirt/cmd/virt-handler):
// they are missing, not used up. The second one is that of hyperv-direct, since KubeVirt 1.8.
func isHypervisor(resource string) bool {
	return resource == "devices.kubevirt.io/kvm" || resource == "devices.kubevirt.io/mshv"
}

// schedulerSays returns the scheduler's latest reason and message about an instance's pod, if it is known
// to be current. KubeVirt copies only the first message (pkg/controller/conditions.go), which often
// comes from a scheduler that has not seen a claim yet, and keeps it when the pod is gone. It
// updates the instance's list of pods at the same time.
func schedulerSays(
	instance *kubevirtv1.VirtualMachineInstance, first *kubevirtv1.VirtualMachineInstanceCondition, pods []corev1.Pod,
) (reason, words string, still bool) {
	if len(instance.Status.ActivePods) == 0 {
		return "", "", false
	}

	reason = first.Reason
	words = first.Message

	for i := range pods {
		switch c := podCondition(&pods[i], corev1.PodScheduled); {
		case c == nil:
		case c.Status == corev1.ConditionTrue:
			return "", "", false
		case c.Status == corev1.ConditionFalse && c.Message != "":
			reason = cmp.Or(c.Reason, reason)
			words = c.Message
		}
	}

	return reason, withoutPreemption(words), true
}

// withoutPreemption drops the scheduler's text about pods that it might evict, and claims that it
// might deallocate: that text describes the rejected nodes in the same words.
func withoutPreemption(words string) string {
	words, _, _ = strings.Cut(words, " preemption: ")
	words = strings.TrimRight(words, " ,")

	for _, said := range []string{"no new claims to deallocate", "still not schedulable"} {
		words = strings.TrimSuffix(words, said)
	}

	return strings.TrimRight(words, " ")
}
