package controlplane

import (
	"context"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

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
