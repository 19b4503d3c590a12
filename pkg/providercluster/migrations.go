// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// migrationsOf returns the live migrations of an instance that must leave its node, or that has a
// target pod. Only the Role for evacuations permits to list migrations; the scheduler's rejection of
// a target pod is known without it.
func (r *reader) migrationsOf(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, pods []corev1.Pod) []kubevirtv1.VirtualMachineInstanceMigration {
	if instance == nil || (instance.Status.EvacuationNodeName == "" && !hasMigrationTarget(pods)) {
		return nil
	}

	if !r.mayList(ctx, &authorizationv1.ResourceAttributes{
		Namespace: r.clients.Namespace,
		Group:     kubevirtv1.GroupVersion.Group,
		Resource:  "virtualmachineinstancemigrations",
	}) {
		r.addUnread(spi.Errorf(spi.ErrForbidden, "list VirtualMachineInstanceMigrations: not permitted; kubernetes/evacuation/provider-namespace grants it"))

		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	migrations, err := providerapi.Some[kubevirtv1.VirtualMachineInstanceMigration](ctx,
		r.clients.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(r.clients.Namespace),
		providerapi.List{Labels: labels.Set{kubevirtv1.MigrationSelectorLabel: instance.Name}.String(), MaxKept: maxEvidenceMemory}, maxEvidence)
	if err != nil {
		r.addUnread(spi.During("list VirtualMachineInstanceMigrations", providerapi.Explain(err)))
	}

	return migrations
}

func hasMigrationTarget(pods []corev1.Pod) bool {
	for i := range pods {
		if diagnose.IsMigrationTarget(&pods[i]) {
			return true
		}
	}

	return false
}

func (r *reader) mayList(ctx context.Context, objects *authorizationv1.ResourceAttributes) bool {
	objects.Verb = "list"

	return r.may(ctx, objects)
}

// may checks a permission, so that the audit log of the provider cluster contains no denied
// request.
func (r *reader) may(ctx context.Context, objects *authorizationv1.ResourceAttributes) bool {
	question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: objects}}

	review, err := providerapi.Once(ctx, evidenceTimeout, func(ctx context.Context) (*authorizationv1.SelfSubjectAccessReview, error) {
		return r.clients.Kubernetes.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
	})

	return err == nil && review.Status.Allowed
}
