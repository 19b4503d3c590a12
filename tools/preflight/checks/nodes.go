package checks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// nodesPerPage keeps one response within the bounds of pkg/providerapi: nodes list their images.
	nodesPerPage = 50
	// maxNodesCost bounds the memory that the pages of all nodes take, one after the other: 5,000 nodes with
	// their images take a third of it. maxNodesMemory bounds what is kept of them, of which 5,000 nodes take
	// half. Only the command mcm-kubevirt reads them.
	maxNodesCost, maxNodesMemory = 8 << 30, 32 << 20
	// mostNamed is the number of nodes that a result names.
	mostNamed = 5
)

func (c *checker) listNodes(ctx context.Context) ([]corev1.Node, error) {
	return providerapi.Collect(ctx, c.viewer.clients, c.viewer.clients.Kubernetes.CoreV1().Nodes(), providerapi.List{
		Description: "nodes",
		PerPage:     nodesPerPage,
		MaxCost:     maxNodesCost,
		MaxKept:     maxNodesMemory,
	}, func(n *corev1.Node) (corev1.Node, bool) {
		return checkedPart(n), true
	})
}

// checkedPart returns the part of a node that the checks read.
func checkedPart(n *corev1.Node) corev1.Node {
	part := corev1.Node{
		Spec:   corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: corev1.NodeStatus{Allocatable: n.Status.Allocatable},
	}
	part.Name = n.Name
	part.Labels = n.Labels
	part.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })

	return part
}

// checkZone checks that the machine's region and zone have nodes that can run the machine.
func (c *classChecker) checkZone(context.Context) []Result {
	spec := c.Machine.Spec
	s := c.about(checkZone, fmt.Sprintf("region %s, zone %s", spec.Region, spec.Zone))

	nodes, err := c.nodes()
	if err != nil {
		return s.notChecked(err, "kubectl get nodes --selector="+quoted(selector(spec)))
	}

	inZone := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return !in(&n, spec) })
	if len(inZone) == 0 {
		remedy := "label a node: kubectl label --overwrite node NODE " + labelling(spec)
		if known := topologiesOf(nodes); len(known) > 0 {
			remedy = "set providerSpec.region and providerSpec.zone to one of: " + quotedList(known) + "; or " + remedy
		}

		return s.fail("has no nodes", remedy)
	}

	var obstacles []string

	for i := range inZone {
		if why := c.unfit(&inZone[i]); why != "" {
			obstacles = append(obstacles, inZone[i].Name+" "+why)
		}
	}

	if len(obstacles) == len(inZone) {
		return s.fail("none of its nodes can run the machines: "+shortened(obstacles, mostNamed, "; "),
			describeNodes(spec)+"; set the taints that machines tolerate in providerSpec.virtualMachineTemplate.spec.template.spec.tolerations")
	}

	return s.ok(fmt.Sprintf("nodes that can run the machines: %d of %d", len(inZone)-len(obstacles), len(inZone)))
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
		labels := nodes[i].Labels
		seen[cmp.Or(labels[corev1.LabelTopologyRegion], v1alpha1.AnyTopology)+"/"+cmp.Or(labels[corev1.LabelTopologyZone], v1alpha1.AnyTopology)] = true
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
	case node.Status.Allocatable.Name(c.hypervisorDevice(), resource.DecimalSI).IsZero() && !c.emulated():
		return fmt.Sprintf("has no hardware virtualization (%s)", c.hypervisorDevice())
	case instance.Architecture != "" && !c.runsArchitecture(node, instance.Architecture):
		return "does not have architecture " + instance.Architecture
	}

	if lacks := c.lacksLabel(node); lacks != "" {
		return "lacks the label " + lacks
	}

	return refuses(node, instance)
}

// selectedLabel is a label that KubeVirt selects the nodes of a machine by, with the value "true", and the
// reason.
type selectedLabel struct {
	name, reason string
}

// lacksLabel returns a label that KubeVirt selects the nodes of the machine by, and that the node does not
// have; empty if it has all.
func (c *classChecker) lacksLabel(node *corev1.Node) string {
	for _, label := range c.selectedLabels() {
		// Since KubeVirt 1.9, the label of CPU managers has another name, and virt-handler sets both.
		renamed := label.name == kubevirtv1.DeprecatedCPUManager && node.Labels[kubevirtv1.CPUManager] == "true"

		if node.Labels[label.name] != "true" && !renamed {
			return label.name + "=true " + label.reason
		}
	}

	return ""
}

// selectedLabels returns the labels that KubeVirt selects the nodes of the machine by for its CPUs
// (pkg/virt-controller/services/nodeselectorrenderer.go). virt-handler sets these labels.
func (c *classChecker) selectedLabels() []selectedLabel {
	cpu := ptr.Deref(c.vm.Spec.Template.Spec.Domain.CPU, kubevirtv1.CPU{})
	instancetype := ptr.Deref(c.instancetype(), instancetypev1beta1.VirtualMachineInstancetypeSpec{}).CPU

	var list []selectedLabel

	if cpu.DedicatedCPUPlacement || ptr.Deref(instancetype.DedicatedCPUPlacement, false) {
		list = append(list, selectedLabel{
			kubevirtv1.DeprecatedCPUManager, "for dedicatedCpuPlacement, which needs the kubelet's static CPU manager and KubeVirt's feature gate CPUManager",
		})
	}

	if cpu.Realtime != nil {
		list = append(list, selectedLabel{kubevirtv1.RealtimeLabel, "for a realtime guest"})
	}

	model := cmp.Or(cpu.Model, ptr.Deref(instancetype.Model, ""))
	if !slices.Contains([]string{"", kubevirtv1.CPUModeHostModel, kubevirtv1.CPUModeHostPassthrough}, model) {
		list = append(list, selectedLabel{kubevirtv1.CPUModelLabel + model, "of its CPU model"})
	}

	for _, feature := range cpu.Features {
		if feature.Policy == "" || feature.Policy == "require" {
			list = append(list, selectedLabel{kubevirtv1.CPUFeatureLabel + feature.Name, "of its CPU feature"})
		}
	}

	return list
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
		tolerated := slices.ContainsFunc(instance.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(taint) })

		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
			return "has the taint " + taint.ToString()
		}
	}

	return ""
}

// The resources under which virt-handler advertises a node's hardware virtualization
// (pkg/hypervisor).
const (
	kvmDevice    corev1.ResourceName = "devices.kubevirt.io/kvm"
	hyperVDevice corev1.ResourceName = "devices.kubevirt.io/mshv"
)

// hypervisorDevice returns the resource that machines request. Since KubeVirt 1.8, it depends on the
// hypervisor in the KubeVirt resource.
func (c *classChecker) hypervisorDevice() corev1.ResourceName {
	found, err := c.kubeVirt()
	if err != nil || !gateConfigurableHypervisor.on(found) {
		return kvmDevice
	}

	if all := found.Spec.Configuration.Hypervisors; len(all) > 0 && all[0].Name == kubevirtv1.HyperVDirectHypervisorName {
		return hyperVDevice
	}

	return kvmDevice
}

// runsArchitecture reports whether a node runs guests of an architecture. Since KubeVirt 1.9, it may
// emulate that of others, and then has a label for each.
func (c *classChecker) runsArchitecture(node *corev1.Node, architecture string) bool {
	if c.on(gateCrossArchitecture) {
		return node.Labels[kubevirtv1.VMArchLabel+architecture] == "true"
	}

	return node.Labels[corev1.LabelArchStable] == architecture
}

// emulated reports whether guests may run without hardware virtualization.
func (c *classChecker) emulated() bool {
	found, err := c.kubeVirt()

	return err == nil && ptr.Deref(found.Spec.Configuration.DeveloperConfiguration, kubevirtv1.DeveloperConfiguration{}).UseEmulation
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
