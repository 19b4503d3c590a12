package infrastructure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deleteLoadBalancers deletes the load balancers of the shoot. cloud-controller-manager deletes them
// with the shoot's Services; they are left if the Services were not deleted, as in a forced deletion.
func (f *flow) deleteLoadBalancers(ctx context.Context) error {
	left, err := f.provider.ListMetadata(ctx, corev1.SchemeGroupVersion.WithKind("Service"), nil, client.InNamespace(f.namespace), f.owner.Selector())
	if err != nil && !nothingThere(err, false) {
		return fmt.Errorf("list Services: %w", err)
	}

	for i := range left {
		if !f.owner.Owns(&left[i]) {
			continue
		}

		if err := f.provider.Delete(ctx, &left[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Service %s: %w", client.ObjectKeyFromObject(&left[i]), err)
		}
	}

	return nil
}
