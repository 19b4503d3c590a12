// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// accounts are the accounts of the control plane's programs in the provider cluster.
type accounts struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
	accepts            identity.Accepts
}

// ensure creates the accounts and their tokens. It skips a hibernated shoot that has them: such a
// shoot is reconciled every two seconds until its kube-apiserver is scaled down. If the shoot is being
// deleted, gardenlet wakes it up, so that the programs delete load balancers and volumes: they need the
// credentials of today.
func (a accounts) ensure(ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) error {
	if extensionscontroller.IsHibernationEnabled(cluster) && cluster.Shoot.DeletionTimestamp == nil && a.exist(ctx, cp) {
		return nil
	}

	m, err := a.manager(ctx, cp, cluster)
	if err != nil {
		return err
	}

	defer m.Provider.Close()

	for _, i := range identities {
		created, err := m.Ensure(ctx, i)
		if err != nil {
			return fmt.Errorf("create the account of %s: %w", i.Program, err)
		}

		if !created {
			log.Info("The credentials of the shoot are not allowed to create accounts in the provider cluster; the program uses a copy of the credentials", "program", i.Program)
		}
	}

	return nil
}

// exist reports whether all programs have credentials.
func (a accounts) exist(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) bool {
	return !slices.ContainsFunc(identities, func(i identity.Identity) bool {
		secret := &corev1.Secret{}

		return a.seed.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: identity.SecretName(i.Program)}, secret) != nil ||
			len(secret.Data[mount.KeyKubeconfig]) == 0 // Only a record of the account.
	})
}

func (a accounts) delete(ctx context.Context, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) error {
	if _, err := providerNamespace(cp); err != nil {
		return nil // No account could be created.
	}

	m, err := a.manager(ctx, cp, cluster)
	if err != nil {
		return err
	}

	defer m.Provider.Close()

	var failed error

	for _, i := range identities {
		if err := m.Delete(ctx, i); err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete the account of %s: %w", i.Program, err))
		}
	}

	return failed
}

func (a accounts) manager(ctx context.Context, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) (*identity.Manager, error) {
	namespace, err := providerNamespace(cp)
	if err != nil {
		return nil, err
	}

	provider, err := a.newProviderCluster(ctx, a.seed, cp.Spec.SecretRef)
	if err != nil {
		return nil, err
	}

	return &identity.Manager{
		Seed:              a.seed,
		Namespace:         cp.Namespace,
		Credentials:       cp.Spec.SecretRef,
		Provider:          provider,
		ProviderNamespace: namespace,
		TechnicalID:       cluster.Shoot.Status.TechnicalID,
		ShootUID:          cluster.Shoot.Status.UID,
		Accepts:           a.accepts,
	}, nil
}

// record records that all accounts may exist.
func (a accounts) record(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) error {
	for _, i := range identities {
		if err := identity.Record(ctx, a.seed, cp.Namespace, i.Program); err != nil {
			return err
		}
	}

	return nil
}

// isRecorded reports whether an account may exist.
func (a accounts) isRecorded(ctx context.Context, cp *extensionsv1alpha1.ControlPlane) (bool, error) {
	for _, i := range identities {
		if recorded, err := identity.IsRecorded(ctx, a.seed, cp.Namespace, i.Program); recorded || err != nil {
			return recorded, err
		}
	}

	return false, nil
}

// deleteRecorded deletes the accounts. Without a record, it does so only because older versions of the extension
// recorded an account after its creation: credentials that do not work created none.
func (a accounts) deleteRecorded(ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) error {
	recorded, err := a.isRecorded(ctx, cp)
	if err != nil {
		return err
	}

	if recorded {
		return a.delete(ctx, cp, cluster)
	}

	ctx, cancel := context.WithTimeout(ctx, forceTimeout)
	defer cancel()

	err = a.delete(ctx, cp, cluster)
	if !providercluster.IsFailure(err) {
		return err
	}

	log.Info("ControlPlane is deleted without the provider cluster, since no account was created there", "reason", err.Error())

	return nil
}

// identities are the accounts in the provider cluster, with the requests that each program sends.
// extension/kubernetes/provider-namespace grants the same to the credentials of the shoot.
var identities = []identity.Identity{
	{
		Program: kubevirt.CloudControllerManagerName,
		// pkg/cloudprovider.
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines", "virtualmachineinstances"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
			// For the policy Local. Endpoints are those of older controllers of the provider cluster.
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "create", "update", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: []string{"delete"}},
		},
	},
	{
		Program: kubevirt.CSIControllerName,
		// csi-driver 27b52aa2: pkg/kubevirt/client.go. Expansion also gets PersistentVolumes, which are
		// not in a namespace: see the ClusterRole in extension/kubernetes/provider-namespace.
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes"}, Verbs: []string{"get", "create", "delete"}},
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"get"}},
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachineinstances"}, Verbs: []string{"get", "list"}},
			{
				APIGroups: []string{"subresources.kubevirt.io"},
				// The driver's own manifests lack the last one: it detaches a volume that is no longer in
				// the VirtualMachine, but still in its instance.
				Resources: []string{"virtualmachines/addvolume", "virtualmachines/removevolume", "virtualmachineinstances/removevolume"},
				Verbs:     []string{"update"},
			},
			{APIGroups: []string{"snapshot.storage.k8s.io"}, Resources: []string{"volumesnapshots"}, Verbs: []string{"get", "list", "create", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "patch"}},
		},
	},
}
