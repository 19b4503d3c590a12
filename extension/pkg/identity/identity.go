// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity gives each program of a shoot's control plane an account of its own in the
// provider cluster, with only the permissions that the program needs. The ControlPlane controller
// calls it. It must not depend on the programs.
//
// An account is a ServiceAccount with a Role, created with the credentials of the shoot. Its token
// is renewed before it expires. If those credentials are not allowed to create accounts, each
// program uses a sanitized copy of them, which follows the token of a WorkloadIdentity. Programs never read the original Secret: a user can
// replace its kubeconfig at any time, even with one that runs commands.
package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Identity is the account of a program in the provider cluster.
type Identity struct {
	// Program is the name of the program, unique in a shoot.
	Program string
	// Rules are the permissions in the namespace of the machines.
	Rules []rbacv1.PolicyRule
}

// Manager creates and deletes the accounts of one shoot.
type Manager struct {
	// Seed is the client of the seed, which has the Secrets with the kubeconfigs.
	Seed client.Client
	// Namespace is the namespace of the shoot in the seed.
	Namespace string
	// Credentials refer to the Secret with the credentials of the shoot.
	Credentials corev1.SecretReference

	// Provider is the provider cluster, with the credentials of the shoot.
	Provider *providercluster.Cluster
	// ProviderNamespace is the namespace of the machines in the provider cluster.
	ProviderNamespace string
	// TechnicalID is the technical ID of the shoot.
	TechnicalID string
	// ShootUID is status.uid of the Shoot.
	ShootUID types.UID
	// Accepts reports whether the provider cluster accepts a token.
	Accepts Accepts
}

// Ensure creates or updates an account, and writes the Secret with its kubeconfig and token. If the
// credentials of the shoot are not allowed to create accounts, it writes a copy of them and returns
// false, unless the Secret has a token that is not due for renewal.
func (m *Manager) Ensure(ctx context.Context, i Identity) (created bool, _ error) {
	c, err := m.read(ctx, i)
	if err != nil {
		return false, err
	}

	token, err := m.accountToken(ctx, i, c)

	switch {
	case apierrors.IsForbidden(err) && c.isCurrent("") && m.Accepts.token(ctx, c.secret):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, c.writeGiven(ctx)
	case err != nil:
		return false, err
	case token == nil:
		return true, nil
	default:
		return true, c.write(ctx, token)
	}
}

// accountToken creates or updates an account, and returns a new token for it, or nil if the provider
// cluster accepts the current one, which is not due for renewal. All its errors come from the provider
// cluster.
func (m *Manager) accountToken(ctx context.Context, i Identity, c *credentials) (*token, error) {
	account, err := m.ensureAccount(ctx, i, c)
	if err != nil {
		return nil, err
	}

	if c.isCurrent(account.UID) && m.Accepts.token(ctx, c.secret) {
		return nil, nil //nolint:nilnil // see above
	}

	return m.requestToken(ctx, account)
}

// Renew replaces the token of an account if it is due for renewal, or if the provider cluster does not
// accept it any more, and the copy of a token that gardenlet has renewed. It neither creates nor changes
// accounts: the shoot may be deleted concurrently.
func (m *Manager) Renew(ctx context.Context, i Identity) error {
	c, err := m.read(ctx, i)
	if err != nil {
		return err
	}

	if IsCopy(c.secret) {
		return c.copy(ctx)
	}

	at, has := RenewAt(c.secret)
	if !has || time.Now().Before(at) && m.Accepts.token(ctx, c.secret) {
		return nil
	}

	account := &corev1.ServiceAccount{}
	if err := m.Provider.Get(ctx, client.ObjectKey{Namespace: m.ProviderNamespace, Name: m.meta(i).Name}, account); err != nil {
		return fmt.Errorf("get ServiceAccount %s: %w", m.meta(i).Name, err)
	}

	token, err := m.requestToken(ctx, account)
	if err != nil {
		return err
	}

	return c.write(ctx, token)
}

// ensureAccount creates the Role first, since this fails if the credentials of the shoot lack one
// of its permissions.
func (m *Manager) ensureAccount(ctx context.Context, i Identity, c *credentials) (*corev1.ServiceAccount, error) {
	role := &rbacv1.Role{ObjectMeta: m.meta(i), Rules: i.Rules}
	if err := m.ensureObject(ctx, c, role, &rbacv1.Role{}); err != nil {
		return nil, fmt.Errorf("create Role %s: %w", role.Name, err)
	}

	binding := &rbacv1.RoleBinding{
		ObjectMeta: m.meta(i),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: m.ProviderNamespace, Name: role.Name}},
	}
	if err := m.ensureObject(ctx, c, binding, &rbacv1.RoleBinding{}); err != nil {
		return nil, fmt.Errorf("create RoleBinding %s: %w", binding.Name, err)
	}

	account := &corev1.ServiceAccount{ObjectMeta: m.meta(i)}
	if err := m.ensureObject(ctx, c, account, &corev1.ServiceAccount{}); err != nil {
		return nil, fmt.Errorf("create ServiceAccount %s: %w", account.Name, err)
	}

	return account, nil
}

// meta returns the name and the labels of the objects of an identity in the provider cluster.
func (m *Manager) meta(i Identity) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.ProviderNamespace,
		Name:      m.TechnicalID + "-" + i.Program,
		Labels:    m.owner().Labels(),
	}
}

func (m *Manager) owner() ownership.Owner {
	return ownership.Owner{TechnicalID: m.TechnicalID, UID: m.ShootUID}
}

// ensureObject creates an object, or updates it if its permissions or labels differ. It does not change
// objects of another owner. Afterwards, desired is the object in the provider cluster.
func (m *Manager) ensureObject(ctx context.Context, c *credentials, desired, existing client.Object) error {
	switch err := m.Provider.Get(ctx, client.ObjectKeyFromObject(desired), existing); {
	case apierrors.IsNotFound(err):
		if err := c.record(ctx); err != nil {
			return err
		}

		return m.Provider.Create(ctx, desired)
	case err != nil:
		return err
	}

	if err := m.owner().Check("it", existing); err != nil {
		return err
	}

	desired.SetUID(existing.GetUID())
	desired.SetResourceVersion(existing.GetResourceVersion())

	if _, isAccount := desired.(*corev1.ServiceAccount); isAccount { // It has no permissions, and must not be updated.
		return nil
	}

	if !m.owner().Adopt(existing) && samePermissions(desired, existing) {
		return nil
	}

	return m.Provider.Update(ctx, desired)
}

func samePermissions(desired, existing client.Object) bool {
	switch w := desired.(type) {
	case *rbacv1.Role:
		e, ok := existing.(*rbacv1.Role)

		return ok && equality.Semantic.DeepEqual(w.Rules, e.Rules)
	case *rbacv1.RoleBinding:
		e, ok := existing.(*rbacv1.RoleBinding)

		return ok && equality.Semantic.DeepEqual(w.Subjects, e.Subjects)
	default:
		return false
	}
}

// Delete deletes the account, which makes its tokens invalid, and its Secret.
func (m *Manager) Delete(ctx context.Context, i Identity) error {
	c, err := m.read(ctx, i)
	if err != nil {
		return err
	}

	_, created := RenewAt(c.secret)

	var failed error

	for _, object := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: m.meta(i)}, &rbacv1.Role{ObjectMeta: m.meta(i)}, &corev1.ServiceAccount{ObjectMeta: m.meta(i)},
	} {
		// Credentials that cannot read accounts have not created any, unless they lost a permission.
		if err := m.deleteObject(ctx, object); err != nil && (created || !apierrors.IsForbidden(err)) {
			failed = errors.Join(failed, fmt.Errorf("delete %T %s: %w", object, object.GetName(), err))
		}
	}

	if failed != nil {
		return failed
	}

	return client.IgnoreNotFound(m.Seed.Delete(ctx, c.secret))
}

func (m *Manager) deleteObject(ctx context.Context, object client.Object) error {
	err := m.Provider.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil || !m.owner().Owns(object) {
		return err
	}

	return client.IgnoreNotFound(m.Provider.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}))
}
