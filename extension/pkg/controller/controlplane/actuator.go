// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlplane reconciles ControlPlanes: it deploys cloud-controller-manager, KubeVirt's CSI
// driver and the snapshot controller into the seed and the shoot. Gardener's generic actuator
// renders the charts into ManagedResources, and gardener-resource-manager applies them. The package
// must not depend on machines.
package controlplane

import (
	"context"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

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

// Restore implements controlplane.Actuator.
func (a *actuator) Restore(
	ctx context.Context, log logr.Logger, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
) (bool, error) {
	if err := a.accounts.record(ctx, cp); err != nil { // Another seed has created them.
		return false, err
	}

	return a.withAccounts(ctx, log, cp, cluster, a.Actuator.Restore)
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
