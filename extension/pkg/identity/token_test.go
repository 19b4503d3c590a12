// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

// issuer is a provider cluster that accepts only the last token that it issued.
type issuer struct{ issued string }

func (i *issuer) create(
	_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption,
) error {
	i.issued += "x"

	if request, ok := sub.(*authenticationv1.TokenRequest); ok {
		request.Status = authenticationv1.TokenRequestStatus{Token: i.issued}
	}

	return nil
}

func (i *issuer) accepts(_ context.Context, config *rest.Config) bool {
	return config.BearerToken == i.issued
}

// TestEnsure_TokenRejected replaces a token that the provider cluster does not accept any more, as after
// a rotation of its signing key, long before the token expires.
func TestEnsure_TokenRejected(t *testing.T) {
	t.Parallel()

	for name, replace := range map[string]func(*identity.Manager) error{
		"Ensure": func(m *identity.Manager) error {
			created, err := m.Ensure(t.Context(), program)
			require.True(t, created)

			return err
		},
		"Renew": func(m *identity.Manager) error { return m.Renew(t.Context(), program) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := &issuer{}
			m := newManager(t, interceptor.Funcs{SubResourceCreate: server.create})
			m.Accepts = server.accepts

			_, err := m.Ensure(t.Context(), program)
			require.NoError(t, err)
			require.NoError(t, replace(m))
			require.Equal(t, "x", string(secretOf(t, m).Data[mount.KeyToken]), "it is accepted")

			server.issued = "of another key"
			require.NoError(t, replace(m))
			require.Equal(t, server.issued, string(secretOf(t, m).Data[mount.KeyToken]))
		})
	}
}

// TestEnsure_TokenRejectedWithoutPermission uses the shoot's credentials if a token is rejected, and the
// shoot lost the permission to request another one.
func TestEnsure_TokenRejectedWithoutPermission(t *testing.T) {
	t.Parallel()

	forbidden := false
	m := newManager(t, denied[*rbacv1.Role](&forbidden))
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)

	forbidden = true
	m.Accepts = func(context.Context, *rest.Config) bool { return false }
	created, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, "secret-of-the-user", string(secretOf(t, m).Data[mount.KeyToken]))
}

// TestAccepts_Rejected names the programs with a rejected token; those that use the shoot's credentials
// are not its concern.
func TestAccepts_Rejected(t *testing.T) {
	t.Parallel()

	m := newManager(t, interceptor.Funcs{})
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)

	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "seed", Name: identity.SecretName("copied")},
		Data:       secretOf(t, m).Data,
	}
	require.NoError(t, m.Seed.Create(t.Context(), copied))

	reject := identity.Accepts(func(context.Context, *rest.Config) bool { return false })
	rejected, err := reject.Rejected(t.Context(), m.Seed, "seed", program.Program, "copied", "missing")
	require.NoError(t, err)
	require.Equal(t, []string{program.Program}, rejected)

	rejected, err = m.Accepts.Rejected(t.Context(), m.Seed, "seed", program.Program)
	require.NoError(t, err)
	require.Empty(t, rejected)

	_, err = reject.Rejected(t.Context(), fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return context.DeadlineExceeded
		},
	}).Build(), "seed", "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
