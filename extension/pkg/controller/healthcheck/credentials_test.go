// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"testing"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// TestWithCachedCredentials reads only those Secrets from the seed that the cache cannot have.
func TestWithCachedCredentials(t *testing.T) {
	t.Parallel()

	const origin = "origin"

	secretsOf := func(name string, keys ...client.ObjectKey) client.Reader {
		builder := fake.NewClientBuilder()
		for _, key := range keys {
			builder.WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{origin: name}}})
		}

		return builder.Build()
	}

	cached := client.ObjectKey{Namespace: "cached", Name: v1beta1constants.SecretNameCloudProvider}
	added := client.ObjectKey{Namespace: "new", Name: v1beta1constants.SecretNameCloudProvider}
	other := client.ObjectKey{Namespace: "cached", Name: "other"}
	missing := client.ObjectKey{Namespace: "missing", Name: v1beta1constants.SecretNameCloudProvider}

	read := func(ctx context.Context, seed client.Reader, ref corev1.SecretReference) (*providercluster.Cluster, error) {
		secret := &corev1.Secret{}
		err := seed.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)

		return &providercluster.Cluster{Namespace: secret.Labels[origin]}, err
	}

	newProviderCluster := withCachedCredentials(secretsOf("cache", cached, other), read)
	seed := secretsOf("seed", cached, added, other)

	for key, want := range map[client.ObjectKey]string{cached: "cache", added: "seed", other: "seed"} {
		provider, err := newProviderCluster(t.Context(), seed, corev1.SecretReference{Namespace: key.Namespace, Name: key.Name})
		require.NoError(t, err)
		require.Equal(t, want, provider.Namespace, key)
	}

	_, err := newProviderCluster(t.Context(), seed, corev1.SecretReference{Namespace: missing.Namespace, Name: missing.Name})
	require.ErrorContains(t, err, "not found")
}
