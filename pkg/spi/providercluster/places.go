package providercluster

import (
	"context"
	"errors"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// maxNodes is how many nodes are read to find the zones of a provider cluster.
const maxNodes = 500

// explainPlacement names the zones that have nodes if the machine's has none. Nodes are cluster-scoped, and the driver's Role grants no
// access to them: they are read only with credentials that may, such as an administrator's.
func (s *session) explainPlacement(ctx context.Context, cause *spi.Cause, wanted diagnose.Place) {
	if cause == nil || !isUnschedulable(cause) || !s.mayListNodes(ctx) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	nodes, err := s.clients.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{Limit: maxNodes})
	if err != nil {
		s.leaveOut("list nodes", err)

		return
	}

	if nodes.Continue != "" { // Zones of the nodes that were not read would be missing.
		return
	}

	occupied := make([]diagnose.Place, 0, len(nodes.Items))
	for i := range nodes.Items {
		occupied = append(occupied, diagnose.PlaceIn(nodes.Items[i].Labels))
	}

	if remedy := wanted.Vacant(occupied); remedy != "" {
		cause.Remedy = remedy
	}
}

func isUnschedulable(cause *spi.Cause) bool {
	var found *diagnose.Cause

	return errors.As(cause.Err, &found) && found.Reason == diagnose.Unschedulable
}

// mayListNodes asks before it looks, so that the audit log of the provider cluster holds no denied request.
func (s *session) mayListNodes(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	review, err := s.clients.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}},
	}, metav1.CreateOptions{})

	return err == nil && review.Status.Allowed
}
