// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// SameCluster reports whether the clients of two kubeconfigs, whose URLs may differ, reach the same cluster. This is
// not known if one of the clusters does not respond, or if KubeVirt is installed on neither of them.
func SameCluster(ctx context.Context, one, other *Clients) (same, known bool) {
	here, err := installation(ctx, one)
	there, otherErr := installation(ctx, other)
	known = err == nil && otherErr == nil && here+there != ""

	return known && here == there, known
}

// installation returns the UID of the KubeVirt object, which every authenticated user may list
// (pkg/virt-operator/resource/generate/rbac/cluster.go); empty if there is none.
func installation(ctx context.Context, c *Clients) (types.UID, error) {
	found, err := Once(ctx, 10*time.Second, func(ctx context.Context) ([]kubevirtv1.KubeVirt, error) {
		return Some[kubevirtv1.KubeVirt](ctx, c.KubeVirt.KubevirtV1().KubeVirts(metav1.NamespaceAll), List{}, 1)
	})

	switch {
	case apierrors.IsNotFound(err), err == nil && len(found) == 0:
		return "", nil
	case err != nil:
		return "", err
	default:
		return found[0].UID, nil
	}
}
