// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

// TestEnsure_Given copies each kind of credentials of the shoot, if the program cannot have an account.
func TestEnsure_Given(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		user  string
		want  clientcmdapi.AuthInfo
		token string
	}{
		"Token":    {user: `{"token": "t"}`, want: clientcmdapi.AuthInfo{TokenFile: mount.TokenFile}, token: "t"},
		"Password": {user: `{"username": "u", "password": "p"}`, want: clientcmdapi.AuthInfo{Username: "u", Password: "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			forbidden := true
			m := newManager(t, denied[*rbacv1.Role](&forbidden))
			setCredentials(t, m.Seed, strings.Replace(rawKubeconfig, `{"token": "secret-of-the-user"}`, tc.user, 1))

			_, err := m.Ensure(t.Context(), program)
			require.NoError(t, err)

			secret := secretOf(t, m)
			require.Equal(t, tc.token, string(secret.Data[mount.KeyToken]))

			config, err := clientcmd.Load(secret.Data[mount.KeyKubeconfig])
			require.NoError(t, err)
			require.Equal(t, tc.want, withoutExtensions(config.AuthInfos["provider"]))
		})
	}
}

func setCredentials(t *testing.T, seed client.Client, kubeconfig string) {
	t.Helper()

	secret := &corev1.Secret{}
	require.NoError(t, seed.Get(t.Context(), client.ObjectKey{Namespace: "seed", Name: "cloudprovider"}, secret))

	secret.Data["kubeconfig"] = []byte(kubeconfig)
	require.NoError(t, seed.Update(t.Context(), secret))
}

// withoutExtensions returns a user as the author of a kubeconfig would write it.
func withoutExtensions(user *clientcmdapi.AuthInfo) clientcmdapi.AuthInfo {
	user.Extensions = nil

	return *user
}

// TestEnsure_WriteRefused reports that the seed refused the Secret: the pods of the program need it.
func TestEnsure_WriteRefused(t *testing.T) {
	t.Parallel()

	refused := errors.New("refused")
	m := newManager(t, interceptor.Funcs{})
	m.Seed = &refusingSeed{Client: m.Seed, err: refused}

	_, err := m.Ensure(t.Context(), program)
	require.ErrorIs(t, err, refused)
}

type refusingSeed struct {
	client.Client

	err error
}

func (s *refusingSeed) Create(context.Context, client.Object, ...client.CreateOption) error {
	return s.err
}
