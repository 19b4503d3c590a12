// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// requireTopology keeps a machine in its region and zone, whatever affinity the template has. It is
// required, not preferred: the labels that the shoot's node gets from its provider node are not
// updated when the machine moves.
func requireTopology(instance *kubevirtv1.VirtualMachineInstanceSpec, region, zone string) {
	if instance.Affinity == nil {
		instance.Affinity = &corev1.Affinity{}
	}

	if instance.Affinity.NodeAffinity == nil {
		instance.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}

	affinity := instance.Affinity.NodeAffinity

	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: topologyRequirements(region, zone),
		}}}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = required

		return
	}

	// The terms are ORed, so each of them must keep the machine in its region and zone.
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, topologyRequirements(region, zone)...)
	}
}

func topologyRequirements(region, zone string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		topologyRequirement(corev1.LabelTopologyRegion, region),
		topologyRequirement(corev1.LabelTopologyZone, zone),
	}
}

func topologyRequirement(key, value string) corev1.NodeSelectorRequirement {
	if value == v1alpha1.AnyTopology {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
	}

	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// spread asks the scheduler to place the machines of a MachineDeployment on different hosts if
// possible.
func spread(in *spi.CreateMachineInput) []corev1.TopologySpreadConstraint {
	if in.Deployment == "" {
		return nil
	}

	return []corev1.TopologySpreadConstraint{{
		MaxSkew:           1,
		TopologyKey:       corev1.LabelHostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			v1alpha1.TagCluster:    in.Identity().Cluster,
			labelMachineDeployment: in.Deployment,
		}},
	}}
}
