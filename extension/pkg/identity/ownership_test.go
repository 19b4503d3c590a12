// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

// accountOf returns the objects of the account of a Shoot with the technical ID of newManager and a UID; the UID is empty
// for an account from before the label.
func accountOf(uid string) []client.Object {
	meta := metav1.ObjectMeta{
		Namespace: "machines",
		Name:      "shoot--a--b-program",
		Labels:    map[string]string{"kubevirt.provider.extensions.gardener.cloud/cluster": "shoot--a--b"},
	}
	if uid != "" {
		meta.Labels["kubevirt.provider.extensions.gardener.cloud/shoot-uid"] = uid
	}

	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: program.Rules},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "machines", Name: meta.Name}},
		},
		&corev1.ServiceAccount{ObjectMeta: meta},
	}
}

// TestEnsure_ForeignUID neither uses, changes nor deletes the account of a Shoot of another landscape.
func TestEnsure_ForeignUID(t *testing.T) {
	t.Parallel()

	for _, foreign := range accountOf("other") {
		m := newManager(t, interceptor.Funcs{}, foreign)
		m.ShootUID = "own"

		_, err := m.Ensure(t.Context(), program)
		require.ErrorContainsf(t, err, "belongs to another Shoot with the technical ID shoot--a--b", "%T", foreign)
		require.NoError(t, m.Delete(t.Context(), program))
		require.NoErrorf(t, m.Provider.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign), "%T remains", foreign)
	}
}

// TestEnsure_Unlabelled adopts an account from before the label. Only its ServiceAccount remains without: the credentials
// are not allowed to update it.
func TestEnsure_Unlabelled(t *testing.T) {
	t.Parallel()

	updates := 0
	m := newManager(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if _, isAccount := object.(*corev1.ServiceAccount); isAccount {
				return apierrors.NewForbidden(corev1.Resource("serviceaccounts"), object.GetName(), nil)
			}

			updates++

			return c.Update(ctx, object, options...)
		},
	}, accountOf("")...)
	m.ShootUID = "own"

	for range 2 {
		_, err := m.Ensure(t.Context(), program)
		require.NoError(t, err)
		require.Equal(t, 2, updates, "Role and RoleBinding, once")
	}

	require.NoError(t, m.Delete(t.Context(), program))

	for _, object := range accountOf("") {
		require.True(t, apierrors.IsNotFound(m.Provider.Get(t.Context(), client.ObjectKeyFromObject(object), object)))
	}
}

// TestEnsure_RecordsFirst requires the record of an account before the account, and none for credentials that do not work.
func TestEnsure_RecordsFirst(t *testing.T) {
	t.Parallel()

	var m *identity.Manager

	m = newManager(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			recorded, err := identity.IsRecorded(ctx, m.Seed, m.Namespace, program.Program)
			require.NoError(t, err)
			require.True(t, recorded)

			return c.Create(ctx, object, options...)
		},
	})
	_, err := m.Ensure(t.Context(), program)
	require.NoError(t, err)
	require.NotEmpty(t, secretOf(t, m).Data[mount.KeyToken])
	require.NoError(t, identity.Record(t.Context(), m.Seed, m.Namespace, program.Program), "it exists")
	require.NotEmpty(t, secretOf(t, m).Data[mount.KeyToken])

	m = newManager(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewUnauthorized("Unauthorized")
		},
	})
	_, err = m.Ensure(t.Context(), program)
	require.True(t, apierrors.IsUnauthorized(err))

	recorded, err := identity.IsRecorded(t.Context(), m.Seed, m.Namespace, program.Program)
	require.NoError(t, err)
	require.False(t, recorded)
}
