package cloudprovider

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// checkOwner returns an error unless a load balancer belongs to this cluster. Those of KubeVirt's own
// cloud-controller-manager, and of older versions, may lack some of the labels; they get them with the next
// change.
func (b *loadBalancers) checkOwner(balancer *corev1.Service) error {
	if of := balancer.Labels[labelCluster]; of != b.clusterName {
		return fmt.Errorf("the Service %s of the provider cluster belongs to another cluster: its label %s is not %s; delete it if that cluster does not exist any more",
			balancer.Name, labelCluster, b.clusterName)
	}

	for key, value := range b.infraLabels {
		if of := balancer.Labels[key]; of != "" && of != value {
			return fmt.Errorf("the Service %s of the provider cluster belongs to another cluster: its label %s is not %s; delete it if that cluster does not exist any more",
				balancer.Name, key, value)
		}
	}

	return nil
}
