// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// An API server reads Roles, bindings and webhooks from caches, so changes take effect with a small
// delay. The functions of this file wait for that.

// Right is a permission that an account has, or lacks, in a namespace of a cluster.
type Right struct {
	Cluster            kubernetes.Interface
	Namespace, Account string

	Verb, Group, Resource string
}

// DriverRight is a permission of the driver's account in the provider cluster.
func (s *Shoot) DriverRight(verb, group, resource string) Right {
	return Right{
		Cluster:   s.Kube,
		Namespace: s.ProviderNamespace,
		Account:   "machine-controller",
		Verb:      verb,
		Group:     group,
		Resource:  resource,
	}
}

// Await waits until the API server grants or denies the permission.
func (r Right) Await(t *testing.T, granted bool) {
	t.Helper()

	user := "system:serviceaccount:" + r.Namespace + ":" + r.Account
	what := map[bool]string{true: " may ", false: " may not "}[granted] + r.Verb + " " + r.Resource
	Eventually(t, user+what, func(ctx context.Context) (bool, error) {
		review, err := r.Cluster.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: r.Namespace,
					Verb:      r.Verb,
					Group:     r.Group,
					Resource:  r.Resource,
				},
			},
		}, metav1.CreateOptions{})

		return err == nil && review.Status.Allowed == granted, err
	})
}

// denials are the namespaces in which tests removed permissions, with the reason.
var denials sync.Map

// ExpectDenials declares that requests of the shoot's accounts will be denied, and why.
func (s *Shoot) ExpectDenials(reason string) {
	denials.Store(s.Namespace, reason)
	denials.Store(s.ProviderNamespace, reason)
}

// expectedDenials returns the namespaces in which tests removed permissions, with the reason.
func expectedDenials() map[string]string {
	all := map[string]string{}

	denials.Range(func(namespace, reason any) bool {
		all[fmt.Sprint(namespace)] = fmt.Sprint(reason)

		return true
	})

	return all
}
