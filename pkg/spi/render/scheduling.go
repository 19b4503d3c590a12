package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// topologyAffinity keeps a machine in its region and zone. It is required, not preferred: the labels that the shoot's node gets
// from its provider node are not updated when the machine moves.
func topologyAffinity(region, zone string) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{
						topologyRequirement(corev1.LabelTopologyRegion, region),
						topologyRequirement(corev1.LabelTopologyZone, zone),
					},
				}},
			},
		},
	}
}

func topologyRequirement(key, value string) corev1.NodeSelectorRequirement {
	if value == v1alpha1.AnyTopology {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
	}

	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// spread asks the scheduler to put the machines of a MachineDeployment on different hosts, if there is room.
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
			LabelMachineDeployment: in.Deployment,
		}},
	}}
}
