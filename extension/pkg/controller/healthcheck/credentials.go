// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// withCachedCredentials returns a Factory that takes the credentials of a shoot from a cache, which has
// the Secrets with the name that gardenlet gives them. Each check of each shoot needs them: reading them from
// the seed would double the extension's requests.
func withCachedCredentials(cache client.Reader, newProviderCluster providercluster.Factory) providercluster.Factory {
	return func(ctx context.Context, seed client.Reader, ref corev1.SecretReference) (*providercluster.Cluster, error) {
		return newProviderCluster(ctx, &credentials{Reader: seed, cache: cache}, ref)
	}
}

// credentials reads the credentials of shoots from a cache, and what this does not have from the seed.
type credentials struct {
	client.Reader

	cache client.Reader
}

// Get implements client.Reader.
func (c *credentials) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Name == v1beta1constants.SecretNameCloudProvider {
		// The cache may not have a new Secret yet.
		if err := c.cache.Get(ctx, key, object, options...); !apierrors.IsNotFound(err) {
			return err
		}
	}

	return c.Reader.Get(ctx, key, object, options...)
}
