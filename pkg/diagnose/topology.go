// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// Topology is a region and a zone as in a ProviderSpec. The zero Topology is unknown.
type Topology struct {
	Region, Zone string
}

// TopologyOfNode returns the topology of a node with these labels.
func TopologyOfNode(labels map[string]string) Topology {
	p := Topology{Region: v1alpha1.AnyTopology, Zone: v1alpha1.AnyTopology}

	if region, ok := labels[corev1.LabelTopologyRegion]; ok {
		p.Region = region
	}

	if zone, ok := labels[corev1.LabelTopologyZone]; ok {
		p.Zone = zone
	}

	return p
}

// TopologyOf returns the topology that a VirtualMachine requires, from the node affinity that the
// driver adds to every term.
func TopologyOf(vm *kubevirtv1.VirtualMachine) Topology {
	if vm.Spec.Template == nil || vm.Spec.Template.Spec.Affinity == nil || vm.Spec.Template.Spec.Affinity.NodeAffinity == nil {
		return Topology{}
	}

	required := vm.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		return Topology{}
	}

	labels := map[string]string{}

	for _, r := range required.NodeSelectorTerms[0].MatchExpressions {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}

	return TopologyOfNode(labels)
}

// String returns the topology as shown in errors.
func (p Topology) String() string {
	if p == (Topology{}) {
		return "the region and zone of the machine"
	}

	return "region " + shown(p.Region, corev1.LabelTopologyRegion) + ", zone " + shown(p.Zone, corev1.LabelTopologyZone)
}

func shown(value, label string) string {
	if value == v1alpha1.AnyTopology {
		return value + " (nodes without the label " + label + ")"
	}

	return value
}

// UnoccupiedRemedy returns the remedy for a topology without any node, given those that have nodes;
// empty if it is one of them, or if either is unknown.
func (p Topology) UnoccupiedRemedy(occupied []Topology) string {
	if p == (Topology{}) || len(occupied) == 0 || slices.Contains(occupied, p) {
		return ""
	}

	var zones, regions []string

	for _, o := range occupied {
		regions = append(regions, o.Region)

		if o.Region == p.Region {
			zones = append(zones, o.Zone)
		}
	}

	if len(zones) == 0 {
		return fmt.Sprintf("region %s has no nodes; regions: %s; correct the region or add nodes", p.Region, listed(regions))
	}

	return fmt.Sprintf("zone %s has no nodes; zones: %s; correct the zone or add nodes", p.Zone, listed(zones))
}

// listed returns the first names in sorted order.
func listed(names []string) string {
	const most = 20

	slices.Sort(names)

	names = slices.Compact(names)
	if len(names) > most {
		names = append(names[:most], "…")
	}

	return strings.Join(names, ", ")
}
