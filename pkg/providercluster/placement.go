// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxNodes bounds the nodes that are read to find the zones of a provider cluster.
const maxNodes = 500

// explainPlacement sets the zones with nodes as the remedy if the machine's zone has none. Nodes
// are cluster-scoped, and the driver's Role grants no access to them: they are read only with other
// credentials, such as an administrator's.
func (r *reader) explainPlacement(ctx context.Context, cause *spi.Cause, wanted diagnose.Topology) {
	if cause == nil || !isUnschedulable(cause) || !r.mayList(ctx, &authorizationv1.ResourceAttributes{Resource: "nodes"}) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	from := r.clients.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))

	occupied, err := providerapi.Collect(ctx, r.clients.WithoutRetry(), from, providerapi.List{Description: "nodes", Most: maxNodes + 1},
		func(node metav1.Object) (diagnose.Topology, bool) {
			return diagnose.TopologyOfNode(node.GetLabels()), true
		})
	if err != nil {
		r.addUnread(err)

		return
	}

	if len(occupied) > maxNodes { // Zones of the nodes that were not read would be missing.
		return
	}

	if remedy := wanted.UnoccupiedRemedy(occupied); remedy != "" {
		cause.Err.Remedy = remedy
	}
}

func isUnschedulable(cause *spi.Cause) bool {
	return cause.Err.Reason == diagnose.Unschedulable
}
