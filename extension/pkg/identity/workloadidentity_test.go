// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

// TestRenew_WorkloadIdentity lets a program's copy of the shoot's token follow its renewals.
func TestRenew_WorkloadIdentity(t *testing.T) {
	t.Parallel()

	forbidden := true
	m := newManager(t, denied[*rbacv1.Role](&forbidden))
	first := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	second := first.Add(time.Hour)

	renewCredentials(t, m.Seed, "first", first)

	created, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.False(t, created)

	copied := secretOf(t, m)
	requireCopy(t, copied, "first", first)
	require.NoError(t, m.Renew(t.Context(), program))
	require.Equal(t, copied, secretOf(t, m), "gardenlet has not renewed it yet")

	renewCredentials(t, m.Seed, "second", second)
	require.NoError(t, m.Renew(t.Context(), program))
	requireCopy(t, secretOf(t, m), "second", second)
	require.Equal(t, string(copied.Data[mount.KeyKubeconfig]), string(secretOf(t, m).Data[mount.KeyKubeconfig]), "only the token changes")

	_, isAccount := identity.RenewAt(secretOf(t, m))
	require.False(t, isAccount)
	require.NoError(t, m.Delete(t.Context(), program), "it has not created an account")
}

func requireCopy(t *testing.T, secret *corev1.Secret, token string, due time.Time) {
	t.Helper()

	require.True(t, identity.IsCopy(secret))
	require.Equal(t, due.Format(time.RFC3339), secret.Annotations["kubevirt.provider.extensions.gardener.cloud/copied-token-renewed-at"])
	require.Equal(t, token, string(secret.Data[mount.KeyToken]))
}

// renewCredentials writes a token as gardenlet and the webhook do.
func renewCredentials(t *testing.T, seed client.Client, token string, renewedAt time.Time) {
	t.Helper()
	setCredentials(t, seed, strings.Replace(rawKubeconfig, "secret-of-the-user", token, 1))

	secret := &corev1.Secret{}
	require.NoError(t, seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: "cloudprovider"}, secret))

	secret.Labels = map[string]string{
		"security.gardener.cloud/purpose":                   "workload-identity-token-requestor",
		"workloadidentity.security.gardener.cloud/provider": "kubevirt",
	}
	secret.Annotations = map[string]string{"workloadidentity.security.gardener.cloud/token-renew-timestamp": renewedAt.Format(time.RFC3339)}
	require.NoError(t, seed.Update(t.Context(), secret))
}
