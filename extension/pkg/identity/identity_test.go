// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const rawKubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
	"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "machines"}}],
	"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com:6443"}}], "users": [{"name": "a", "user": {"token": "secret-of-the-user"}}]}`

var program = identity.Identity{
	Program: "program",
	Rules:   []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}},
}

// newManager returns a manager whose requests to the provider cluster pass through functions.
func newManager(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *identity.Manager {
	t.Helper()

	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "seed", Name: "cloudprovider"},
		Data:       map[string][]byte{"kubeconfig": []byte(rawKubeconfig)},
	}
	provider := fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()

	return &identity.Manager{
		Seed:              fake.NewClientBuilder().WithObjects(credentials).Build(),
		Namespace:         "seed",
		Credentials:       corev1.SecretReference{Namespace: "seed", Name: "cloudprovider"},
		Provider:          &providercluster.Cluster{Client: provider, Namespace: "machines"},
		ProviderNamespace: "machines",
		TechnicalID:       "shoot--a--b",
		Accepts:           func(context.Context, *rest.Config) bool { return true },
	}
}

func secretOf(t *testing.T, m *identity.Manager) *corev1.Secret {
	t.Helper()

	secret := &corev1.Secret{}
	require.NoError(t, m.Seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: identity.SecretName(program.Program)}, secret))

	return secret
}

// TestEnsure creates an account. A second call writes nothing; a token that is due, or of another
// account, is replaced; changed permissions are updated.
func TestEnsure(t *testing.T) {
	t.Parallel()

	writes := 0
	m := newManager(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			writes++

			object.SetUID("1") // as an API server does

			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			writes++

			return c.Update(ctx, object, options...)
		},
	})

	created, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, 3, writes)

	secret := secretOf(t, m)
	require.NotEmpty(t, secret.Data[mount.KeyToken])
	require.NotContains(t, string(secret.Data["kubeconfig"]), "secret-of-the-user")

	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	require.NoError(t, err)
	require.Equal(t, "https://provider.example.com:6443", config.Clusters["provider"].Server)
	require.Equal(t, "/var/run/secrets/provider/token", config.AuthInfos["provider"].TokenFile)

	_, err = m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.Equal(t, 3, writes)
	require.Equal(t, secret.ResourceVersion, secretOf(t, m).ResourceVersion)

	for annotation, value := range map[string]string{
		"kubevirt.provider.extensions.gardener.cloud/renew-token-at":      time.Now().UTC().Format(time.RFC3339),
		"kubevirt.provider.extensions.gardener.cloud/service-account-uid": "another",
	} {
		secret = secretOf(t, m)
		secret.Annotations[annotation] = value
		require.NoError(t, m.Seed.Update(t.Context(), secret))
		_, err = m.Ensure(t.Context(), program)
		require.NoError(t, err)
		require.NotEqual(t, value, secretOf(t, m).Annotations[annotation])
	}

	changed := program
	changed.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "delete"}}}
	_, err = m.Ensure(t.Context(), changed)
	require.NoError(t, err)
	require.Equal(t, 4, writes)
}

// denied returns functions that refuse a verb on objects of a type while it is set.
func denied[T client.Object](set *bool) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(T); is && *set {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, key.Name, nil)
			}

			return c.Get(ctx, key, object, options...)
		},
	}
}

// TestEnsure_WithoutPermission writes a copy of the credentials that contains only what the allow-list
// permits.
func TestEnsure_WithoutPermission(t *testing.T) {
	t.Parallel()

	forbidden := true
	m := newManager(t, denied[*rbacv1.Role](&forbidden))

	created, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, "secret-of-the-user", string(secretOf(t, m).Data[mount.KeyToken]))

	_, has := identity.RenewAt(secretOf(t, m))
	require.False(t, has, "a token that is not renewed")
	require.NoError(t, m.Renew(t.Context(), program))
	require.NoError(t, m.Delete(t.Context(), program), "it has not created an account")
}

// TestEnsure_PermissionLost keeps the token of the account until it has to be renewed, and then uses the
// credentials of the shoot. The account cannot be deleted.
func TestEnsure_PermissionLost(t *testing.T) {
	t.Parallel()

	forbidden := false
	m := newManager(t, denied[*rbacv1.Role](&forbidden))
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)

	forbidden = true
	before := secretOf(t, m)
	created, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.True(t, created)
	require.Equal(t, before, secretOf(t, m))
	require.True(t, apierrors.IsForbidden(m.Delete(t.Context(), program)))

	setRenewal(t, m, time.Now())
	created, err = m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, "secret-of-the-user", string(secretOf(t, m).Data[mount.KeyToken]))
}

func setRenewal(t *testing.T, m *identity.Manager, at time.Time) {
	t.Helper()

	secret := secretOf(t, m)
	secret.Annotations["kubevirt.provider.extensions.gardener.cloud/renew-token-at"] = at.UTC().Format(time.RFC3339)
	require.NoError(t, m.Seed.Update(t.Context(), secret))
}

// TestRenew replaces a token that is due, whatever expiration the provider cluster reports, and creates
// no account.
func TestRenew(t *testing.T) {
	t.Parallel()

	for name, expiration := range map[string]time.Duration{"past": -time.Hour, "normal": 24 * time.Hour, "far": 1 << 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := newManager(t, interceptor.Funcs{SubResourceCreate: func(
				_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption,
			) error {
				request, ok := sub.(*authenticationv1.TokenRequest)
				require.True(t, ok)
				request.Status = authenticationv1.TokenRequestStatus{Token: "t", ExpirationTimestamp: metav1.NewTime(time.Now().Add(expiration))}

				return nil
			}})
			_, err := m.Ensure(t.Context(), program)
			require.NoError(t, err)

			setRenewal(t, m, time.Now())
			require.NoError(t, m.Renew(t.Context(), program))

			at, has := identity.RenewAt(secretOf(t, m))
			require.True(t, has)
			require.Greater(t, time.Until(at), time.Minute)
			require.Less(t, time.Until(at), 4*24*time.Hour)
		})
	}

	m := newManager(t, interceptor.Funcs{})
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.NoError(t, m.Provider.DeleteAllOf(t.Context(), &corev1.ServiceAccount{}, client.InNamespace("machines")))

	setRenewal(t, m, time.Now())
	require.True(t, apierrors.IsNotFound(m.Renew(t.Context(), program)))
}

// TestEnsure_HostileCredentials requires that a kubeconfig that runs a command never reaches a
// program.
func TestEnsure_HostileCredentials(t *testing.T) {
	t.Parallel()

	forbidden := true
	m := newManager(t, denied[*rbacv1.Role](&forbidden))
	credentials := &corev1.Secret{}
	require.NoError(t, m.Seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: "cloudprovider"}, credentials))

	credentials.Data["kubeconfig"] = []byte(strings.Replace(rawKubeconfig, `{"token": "secret-of-the-user"}`, `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}}`, 1))
	require.NoError(t, m.Seed.Update(t.Context(), credentials))

	_, err := m.Ensure(t.Context(), program)
	require.ErrorIs(t, err, providercluster.ErrCredentials)
	require.True(t, apierrors.IsNotFound(m.Seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: identity.SecretName(program.Program)}, &corev1.Secret{})))
}

// TestEnsure_ForeignObjects does not change objects of the same names that do not belong to the shoot.
func TestEnsure_ForeignObjects(t *testing.T) {
	t.Parallel()

	foreign := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "shoot--a--b-program"}}
	m := newManager(t, interceptor.Funcs{}, foreign)

	_, err := m.Ensure(t.Context(), program)
	require.ErrorContains(t, err, "does not belong to the shoot")
	require.NoError(t, m.Delete(t.Context(), program))
	require.NoError(t, m.Provider.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	require.Empty(t, foreign.Rules)
}

func TestDelete(t *testing.T) {
	t.Parallel()

	m := newManager(t, interceptor.Funcs{})
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.NoError(t, m.Delete(t.Context(), program))
	require.True(t, apierrors.IsNotFound(m.Seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: identity.SecretName(program.Program)}, &corev1.Secret{})))

	for _, list := range []client.ObjectList{&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.ServiceAccountList{}} {
		require.NoError(t, m.Provider.List(t.Context(), list))
		require.Zerof(t, meta.LenList(list), "%T", list)
	}
}
