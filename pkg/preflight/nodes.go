package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// nodesPerPage and podsPerPage keep one response within the bounds of
	// pkg/providerapi: nodes list their images.
	nodesPerPage, podsPerPage = 50, 100
	// maxClusterBytes bounds the list of all nodes and that of all pods, of which little is kept.
	// 5,000 nodes with their images take a third of it.
	maxClusterBytes = 512 << 20
	// maxRequested is the maximum number of resources that a counted pod requests.
	maxRequested = 32
)

func (c *checker) listNodes(ctx context.Context) ([]corev1.Node, error) {
	return providerapi.Collect(ctx, c.viewer.clients, c.viewer.clients.Kubernetes.CoreV1().Nodes(), providerapi.List{
		What: "nodes", PerPage: nodesPerPage, MaxBytes: maxClusterBytes,
	}, func(n *corev1.Node) (corev1.Node, bool) {
		n.ManagedFields, n.Annotations, n.Status.Images = nil, nil, nil

		return *n, true
	})
}

// load is the node of a pod and its requests.
type load struct {
	node     string
	requests corev1.ResourceList
}

// listLoads returns the loads of pods that are assigned to a node and have not terminated.
func (c *checker) listLoads(ctx context.Context) ([]load, error) {
	return providerapi.Collect(ctx, c.viewer.clients, c.viewer.clients.Kubernetes.CoreV1().Pods(metav1.NamespaceAll), providerapi.List{
		What: "pods", Fields: "status.phase!=Succeeded,status.phase!=Failed", PerPage: podsPerPage, MaxBytes: maxClusterBytes,
	}, func(p *corev1.Pod) (load, bool) {
		l := load{node: p.Spec.NodeName, requests: podRequests(p)}

		return l, l.node != "" && len(l.node) <= validation.DNS1123SubdomainMaxLength && len(l.requests) <= maxRequested
	})
}

// checkZone checks that the machine's region and zone have nodes that can run the machine.
func (c *classChecker) checkZone(context.Context) []Result {
	spec := c.Machine.Spec
	v, subject := c.view(), fmt.Sprintf("region %s, zone %s", spec.Region, spec.Zone)

	nodes, err := c.hosts()
	if err != nil {
		return []Result{v.notChecked(checkZone, subject, err, "kubectl get nodes --selector="+quoted(selector(spec)))}
	}

	inZone := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !in(&n, spec) })
	if len(inZone) == 0 {
		return []Result{v.fail(checkZone, subject, "has no nodes", fmt.Sprintf(
			"set providerSpec.region and providerSpec.zone to one of: %s; or label a node: kubectl label --overwrite node NODE %s",
			quotedList(topologiesOf(nodes)), labelling(spec)))}
	}

	var obstacles []string

	for i := range inZone {
		if why := c.unfit(&inZone[i]); why != "" {
			obstacles = append(obstacles, inZone[i].Name+" "+why)
		}
	}

	if len(obstacles) == len(inZone) {
		return []Result{v.fail(checkZone, subject, "none of its nodes can run the machines: "+shortened(obstacles),
			describeNodes(spec)+"; set the taints that machines tolerate in providerSpec.virtualMachineTemplate.spec.template.spec.tolerations")}
	}

	return []Result{v.ok(checkZone, subject, fmt.Sprintf("nodes that can run the machines: %d of %d", len(inZone)-len(obstacles), len(inZone)))}
}

// in reports whether a node is in the spec's region and zone.
func in(node *corev1.Node, spec *v1alpha1.ProviderSpec) bool {
	is := func(key, want string) bool {
		value, there := node.Labels[key]

		return there && value == want || !there && want == v1alpha1.AnyTopology
	}

	return is(corev1.LabelTopologyRegion, spec.Region) && is(corev1.LabelTopologyZone, spec.Zone)
}

func selector(spec *v1alpha1.ProviderSpec) string {
	term := func(key, value string) string {
		if value == v1alpha1.AnyTopology {
			return "!" + key
		}

		return key + "=" + value
	}

	return term(corev1.LabelTopologyRegion, spec.Region) + "," + term(corev1.LabelTopologyZone, spec.Zone)
}

func describeNodes(spec *v1alpha1.ProviderSpec) string {
	return "kubectl describe nodes --selector=" + quoted(selector(spec))
}

// labelling returns the arguments of kubectl label that put a node into the spec's region and zone.
// The suffix "-" removes a label.
func labelling(spec *v1alpha1.ProviderSpec) string {
	term := func(key, value string) string {
		if value == v1alpha1.AnyTopology {
			return key + "-"
		}

		return key + "=" + quoted(value)
	}

	return term(corev1.LabelTopologyRegion, spec.Region) + " " + term(corev1.LabelTopologyZone, spec.Zone)
}

// topologiesOf returns the regions and zones of the nodes.
func topologiesOf(nodes []corev1.Node) []string {
	seen := map[string]bool{}

	for i := range nodes {
		name := func(key string) string {
			if value := nodes[i].Labels[key]; value != "" {
				return value
			}

			return v1alpha1.AnyTopology
		}
		seen[name(corev1.LabelTopologyRegion)+"/"+name(corev1.LabelTopologyZone)] = true
	}

	return slices.Sorted(maps.Keys(seen))
}

// unfit returns why a node cannot run the machine, regardless of its free resources; empty if it
// can. The class's own affinity is not checked.
func (c *classChecker) unfit(node *corev1.Node) string {
	instance := &c.vm.Spec.Template.Spec

	switch {
	case node.Spec.Unschedulable:
		return "is cordoned"
	case !ready(node):
		return "is not ready"
	case node.Labels[kubevirtv1.NodeSchedulable] != "true":
		return "is not marked as schedulable by virt-handler (label " + kubevirtv1.NodeSchedulable + ")"
	case node.Status.Allocatable.Name(kvmDevice, resource.DecimalSI).IsZero() && !c.emulated():
		return "has no hardware virtualization (" + kvmDevice + ")"
	case instance.Architecture != "" && node.Labels[corev1.LabelArchStable] != instance.Architecture:
		return "does not have architecture " + instance.Architecture
	}

	return refuses(node, instance)
}

// refuses returns the label or taint of a node that keeps an instance off; empty if there is none.
func refuses(node *corev1.Node, instance *kubevirtv1.VirtualMachineInstanceSpec) string {
	for _, key := range slices.Sorted(maps.Keys(instance.NodeSelector)) {
		if node.Labels[key] != instance.NodeSelector[key] {
			return "lacks the label " + key + "=" + instance.NodeSelector[key]
		}
	}

	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(taint, instance.Tolerations) {
			return "has the taint " + taint.ToString()
		}
	}

	return ""
}

// kvmDevice is the resource under which virt-handler advertises a node's hardware virtualization
// (pkg/virt-controller/services).
const kvmDevice = "devices.kubevirt.io/kvm"

// emulated reports whether guests may run without hardware virtualization.
func (c *classChecker) emulated() bool {
	found, err := c.kubeVirt()

	return err == nil && found.Spec.Configuration.DeveloperConfiguration != nil && found.Spec.Configuration.DeveloperConfiguration.UseEmulation
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(taint) })
}

// shortened joins the first entries of a list.
func shortened(list []string) string {
	const shown = 5
	if len(list) > shown {
		return strings.Join(list[:shown], "; ") + fmt.Sprintf("; and %d more", len(list)-shown)
	}

	return strings.Join(list, "; ")
}

func sortedNames[T any](set map[string]T) string {
	return quotedList(slices.Sorted(maps.Keys(set)))
}
