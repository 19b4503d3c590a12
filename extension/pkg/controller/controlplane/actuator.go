// Package controlplane reconciles ControlPlanes: it deploys KubeVirt's cloud-controller-manager and
// CSI driver and the snapshot controller into the seed and the shoot. Gardener's generic actuator
// renders the charts into ManagedResources, and gardener-resource-manager applies them. The package
// must not know machines.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane/genericactuator"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Options configure the controller.
type Options struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// IgnoreOperationAnnotation reconciles each change, even without gardenlet's operation annotation.
	IgnoreOperationAnnotation bool
	// ExtensionClasses are the classes of ControlPlanes that this process reconciles.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// WebhookServerNamespace is the namespace of the extension.
	WebhookServerNamespace string
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
	// Accepts reports whether provider clusters accept tokens.
	Accepts identity.Accepts
	// AllowInternalServers is kubevirt.ServerOptions.AllowInternal.
	AllowInternalServers bool
	// ShootWebhooks is the configuration of the webhooks in the shoots; nil if there are none.
	ShootWebhooks *atomic.Value
}

// AddToManager adds the controller, and the one that renews tokens, to a manager.
func AddToManager(ctx context.Context, mgr manager.Manager, options Options) error {
	generic, err := genericactuator.NewActuator(mgr, kubevirt.Name,
		secretConfigs, shootAccessSecrets,
		nil, seedChart, shootChart, shootCRDsChart, storageClassesChart,
		&valuesProvider{allowInternalServers: options.AllowInternalServers}, extensionscontroller.ChartRendererFactoryFunc(util.NewChartRendererForShoot),
		imagevector.ImageVector(), "", options.ShootWebhooks, options.WebhookServerNamespace)
	if err != nil {
		return err
	}

	a := &actuator{
		Actuator: generic,
		accounts: accounts{
			seed:               mgr.GetClient(),
			newProviderCluster: options.NewProviderCluster,
			accepts:            options.Accepts,
		},
	}

	if err := addRenewal(mgr, a.accounts, options); err != nil {
		return fmt.Errorf("add the renewal of tokens: %w", err)
	}

	return controlplane.Add(mgr, controlplane.AddArgs{
		Actuator:                  a,
		ControllerOptions:         options.Controller,
		Predicates:                controlplane.DefaultPredicates(ctx, mgr, options.IgnoreOperationAnnotation),
		Type:                      kubevirt.Type,
		IgnoreOperationAnnotation: options.IgnoreOperationAnnotation,
		ExtensionClasses:          options.ExtensionClasses,
	})
}

// actuator extends the generic actuator by the accounts in the provider cluster.
type actuator struct {
	controlplane.Actuator

	accounts accounts
}

// Reconcile implements controlplane.Actuator. The generic actuator reports whether it has to run again,
// since the shoot is about to be hibernated.
func (a *actuator) Reconcile(
	ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
) (bool, error) {
	return a.withAccounts(ctx, log, cp, cluster, a.Actuator.Reconcile)
}

// Restore implements controlplane.Actuator.
func (a *actuator) Restore(
	ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
) (bool, error) {
	if err := a.accounts.record(ctx, cp); err != nil { // Another seed has created them.
		return false, err
	}

	return a.withAccounts(ctx, log, cp, cluster, a.Actuator.Restore)
}

// withAccounts creates the accounts before the programs that use them.
func (a *actuator) withAccounts(
	ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
	reconcile func(context.Context, logr.Logger, *extensionsv1alpha1.ControlPlane, *extensionscontroller.Cluster) (bool, error),
) (bool, error) {
	if err := a.accounts.ensure(ctx, log, cp, cluster); err != nil {
		// gardenlet also reconciles the ControlPlane of a Shoot that is being deleted.
		return false, errorcodes.OfDeletion(util.DetermineError(providercluster.Explain(err), errorcodes.Known), cluster.Shoot, time.Now())
	}

	again, err := reconcile(ctx, log, cp, cluster)

	return again, util.DetermineError(err, errorcodes.Known)
}

// Delete implements controlplane.Actuator. The Deployments of the programs that use the accounts are
// deleted at the same time: the shoot has no volumes and load balancers any more.
func (a *actuator) Delete(ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) error {
	err := a.Actuator.Delete(ctx, log, cp, cluster)
	if err == nil {
		err = providercluster.Explain(a.accounts.deleteRecorded(ctx, log, cp, cluster))
	}

	return errorcodes.OfDeletion(util.DetermineError(err, errorcodes.Known), cluster.Shoot, time.Now())
}

// forceTimeout bounds the requests to the provider cluster of a forced deletion.
const forceTimeout = time.Minute

// ForceDelete implements controlplane.Actuator. It deletes the accounts in the provider cluster on
// a best-effort basis.
func (a *actuator) ForceDelete(ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) error {
	if err := a.Actuator.ForceDelete(ctx, log, cp, cluster); err != nil {
		return err
	}

	bounded, cancel := context.WithTimeout(ctx, forceTimeout)
	defer cancel()

	if err := a.accounts.delete(bounded, cp, cluster); err != nil {
		log.Info("Failed to delete accounts in the provider cluster during forced deletion; they may remain", "label", kubevirt.LabelShoot+"="+cluster.Shoot.Status.TechnicalID, "reason", err.Error())
	}

	return nil
}

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
