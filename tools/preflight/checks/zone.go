// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// checkZone checks that the machine's region and zone have nodes that can run the machine.
func checkZone(ctx context.Context, r *reader, c *class) []Result {
	in := diagnose.Topology{Region: c.Machine.Spec.Region, Zone: c.Machine.Spec.Zone}
	s := r.about(fmt.Sprintf("region %s, zone %s", in.Region, in.Zone))

	nodes, err := r.nodes(ctx)
	if err != nil {
		return s.notChecked(err, "kubectl get nodes --selector="+quoted(selector(in)))
	}

	inZone := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return diagnose.TopologyOfNode(n.Labels) != in })
	if len(inZone) == 0 {
		remedy := "label a node: kubectl label --overwrite node NODE " + labelling(in)
		if known := topologiesOf(nodes); len(known) > 0 {
			remedy = "set providerSpec.region and providerSpec.zone to one of: " + quotedList(known) + "; or " + remedy
		}

		return s.fail("has no nodes", remedy)
	}

	kubeVirt, err := r.kubeVirt(ctx)
	if err != nil {
		kubeVirt = &kubevirtv1.KubeVirt{} // The defaults are likely.
	}

	d := &demands{instance: c.instance(), instancetype: r.instancetype(ctx, c.instancetype()), kubeVirt: kubeVirt}

	var obstacles []string

	for i := range inZone {
		if why := d.unfit(&inZone[i]); why != "" {
			obstacles = append(obstacles, inZone[i].Name+" "+why)
		}
	}

	if len(obstacles) == len(inZone) {
		return s.fail("none of its nodes can run the machines: "+shortened(obstacles, mostNamed, "; "), "kubectl describe nodes --selector="+
			quoted(selector(in))+"; set the taints that machines tolerate in providerSpec.virtualMachineTemplate.spec.template.spec.tolerations")
	}

	return s.ok(fmt.Sprintf("nodes that can run the machines: %d of %d", len(inZone)-len(obstacles), len(inZone)))
}

// selector returns the selector of the nodes in a region and zone.
func selector(in diagnose.Topology) string {
	return terms(in, func(key string) string { return "!" + key }, func(value string) string { return value }, ",")
}

// labelling returns the arguments of kubectl label that put a node into a region and zone. The suffix "-" removes
// a label.
func labelling(in diagnose.Topology) string {
	return terms(in, func(key string) string { return key + "-" }, quoted, " ")
}

func terms(in diagnose.Topology, without, valueOf func(string) string, separator string) string {
	term := func(key, value string) string {
		if value == v1alpha1.AnyTopology {
			return without(key)
		}

		return key + "=" + valueOf(value)
	}

	return term(corev1.LabelTopologyRegion, in.Region) + separator + term(corev1.LabelTopologyZone, in.Zone)
}

// topologiesOf returns the regions and zones of the nodes.
func topologiesOf(nodes []corev1.Node) []string {
	known := make([]string, len(nodes))
	for i := range nodes {
		of := diagnose.TopologyOfNode(nodes[i].Labels)
		known[i] = of.Region + "/" + of.Zone
	}

	slices.Sort(known)

	return slices.Compact(known)
}

// demands are the demands of a machine on its node.
type demands struct {
	instance     *kubevirtv1.VirtualMachineInstanceSpec
	instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
	kubeVirt     *kubevirtv1.KubeVirt
}

// unfit returns why a node cannot run the machine, regardless of its free resources; empty if it
// can. The class's own affinity is not checked.
func (d *demands) unfit(node *corev1.Node) string {
	device := d.device()

	switch {
	case node.Spec.Unschedulable:
		return "is cordoned"
	case !ready(node):
		return "is not ready"
	case node.Labels[kubevirtv1.NodeSchedulable] != "true":
		return "is not marked as schedulable by virt-handler (label " + kubevirtv1.NodeSchedulable + ")"
	case node.Status.Allocatable.Name(device, resource.DecimalSI).IsZero() && !d.isEmulated():
		return fmt.Sprintf("has no hardware virtualization (%s)", device)
	case d.instance.Architecture != "" && !d.runsArchitecture(node):
		return "does not have architecture " + d.instance.Architecture
	}

	if lacks := d.lacksLabel(node); lacks != "" {
		return "lacks the label " + lacks
	}

	return refuses(node, d.instance)
}

// lacksLabel returns a label that KubeVirt selects the nodes of the machine by for its CPUs
// (pkg/virt-controller/services/nodeselectorrenderer.go), and that the node does not have; empty if it has all.
// virt-handler sets these labels.
func (d *demands) lacksLabel(node *corev1.Node) string {
	cpu := ptr.Deref(d.instance.Domain.CPU, kubevirtv1.CPU{})
	model := cmp.Or(cpu.Model, ptr.Deref(d.instancetype.CPU.Model, ""))
	ofHost := slices.Contains([]string{"", kubevirtv1.CPUModeHostModel, kubevirtv1.CPUModeHostPassthrough}, model)
	dedicated := cpu.DedicatedCPUPlacement || ptr.Deref(d.instancetype.CPU.DedicatedCPUPlacement, false)
	// Since KubeVirt 1.9, the label of CPU managers has another name, and virt-handler sets both.
	renamed := node.Labels[kubevirtv1.CPUManager] == "true"

	type label struct {
		needed       bool
		name, reason string
	}

	labels := []label{
		{
			dedicated && !renamed, kubevirtv1.DeprecatedCPUManager,
			"for dedicatedCpuPlacement, which needs the kubelet's static CPU manager and KubeVirt's feature gate CPUManager",
		},
		{cpu.Realtime != nil, kubevirtv1.RealtimeLabel, "for a realtime guest"},
		{!ofHost, kubevirtv1.CPUModelLabel + model, "of its CPU model"},
	}
	for _, feature := range cpu.Features {
		required := feature.Policy == "" || feature.Policy == "require"
		labels = append(labels, label{required, kubevirtv1.CPUFeatureLabel + feature.Name, "of its CPU feature"})
	}

	for _, l := range labels {
		if l.needed && node.Labels[l.name] != "true" {
			return l.name + "=true " + l.reason
		}
	}

	return ""
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

// device returns the resource that machines request. Since KubeVirt 1.8, it depends on the
// hypervisor in the KubeVirt resource.
func (d *demands) device() corev1.ResourceName {
	all := d.kubeVirt.Spec.Configuration.Hypervisors
	if gateConfigurableHypervisor.on(d.kubeVirt) && len(all) > 0 && all[0].Name == kubevirtv1.HyperVDirectHypervisorName {
		return hyperVDevice
	}

	return kvmDevice
}

// runsArchitecture reports whether a node runs guests of the machine's architecture. Since KubeVirt 1.9, it may
// emulate that of others, and then has a label for each.
func (d *demands) runsArchitecture(node *corev1.Node) bool {
	if gateCrossArchitecture.on(d.kubeVirt) {
		return node.Labels[kubevirtv1.VMArchLabel+d.instance.Architecture] == "true"
	}

	return node.Labels[corev1.LabelArchStable] == d.instance.Architecture
}

// isEmulated reports whether guests may run without hardware virtualization.
func (d *demands) isEmulated() bool {
	return ptr.Deref(d.kubeVirt.Spec.Configuration.DeveloperConfiguration, kubevirtv1.DeveloperConfiguration{}).UseEmulation
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
