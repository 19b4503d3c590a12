// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// placed returns a VirtualMachine with the node affinity of a place.
func placed(region, zone corev1.NodeSelectorRequirement) *kubevirtv1.VirtualMachine {
	vm := newVM("ErrorUnschedulable")
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "own", Operator: corev1.NodeSelectorOpExists}, region, zone},
		}}},
	}}

	return vm
}

func in(key, value string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// TestPlacement_RemedyNamesPlace rejects all nodes for their labels, capacity or volumes.
func TestPlacement_RemedyNamesPlace(t *testing.T) {
	t.Parallel()

	for _, words := range []string{
		"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "0/3 nodes are available: 3 Insufficient memory.",
		"0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm.", "0/3 nodes are available: 3 Insufficient example.com/gpu.",
		"0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
	} {
		e := unschedulable(words, ago(time.Hour))
		e.VirtualMachine.Spec = placed(in(corev1.LabelTopologyRegion, "local"), in(corev1.LabelTopologyZone, "zone-q")).Spec
		cause := e.Cause(now, grace)
		require.Contains(t, cause.Err.Remedy, "region local, zone zone-q", words)
		require.Contains(t, cause.Err.Error(), cause.Err.Remedy)
		require.NotContains(t, cause.Err.Error(), "{place}")
	}
}

func TestPlaceOf(t *testing.T) {
	t.Parallel()

	none := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpDoesNotExist}
	p := diagnose.TopologyOf(placed(in(corev1.LabelTopologyRegion, "local"), none))
	require.Equal(t, diagnose.Topology{Region: "local", Zone: "default"}, p)
	require.Equal(t, p, diagnose.TopologyOfNode(map[string]string{corev1.LabelTopologyRegion: "local"}), "a node there")
	require.Equal(t, "region local, zone default (nodes without the label topology.kubernetes.io/zone)", p.String())
	require.Equal(t, diagnose.Topology{}, diagnose.TopologyOf(newVM("Stopped")))
}

func TestUnoccupiedRemedy(t *testing.T) {
	t.Parallel()

	wanted := diagnose.Topology{Region: "local", Zone: "zone-q"}
	there := []diagnose.Topology{{"local", "zone-b"}, {"local", "zone-a"}, {"local", "zone-a"}, {"far", "zone-q"}}
	require.Equal(t, "zone zone-q has no nodes; zones: zone-a, zone-b; correct the zone or add nodes", wanted.UnoccupiedRemedy(there))
	require.Equal(t, "region moon has no nodes; regions: far, local; correct the region or add nodes", diagnose.Topology{Region: "moon", Zone: "zone-a"}.UnoccupiedRemedy(there))
	require.Empty(t, wanted.UnoccupiedRemedy(append(there, wanted)), "it has nodes")
	require.Empty(t, wanted.UnoccupiedRemedy(nil), "which nodes there are is not known")
	require.Empty(t, diagnose.Topology{}.UnoccupiedRemedy(there))

	many := make([]diagnose.Topology, 0, 21)
	for zone := range 20 {
		many = append(many, diagnose.Topology{Region: "local", Zone: string(rune('a' + zone))})
	}

	require.Contains(t, wanted.UnoccupiedRemedy(many), "s, t; correct")
	require.Contains(t, wanted.UnoccupiedRemedy(append(many, diagnose.Topology{Region: "local", Zone: "u"})), "s, t, …; correct")
}
