package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Delete implements infrastructure.Actuator.
func (a *actuator) Delete(
	ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	err := providercluster.Explain(a.delete(ctx, log, infra, cluster))

	return errorcodes.OfDeletion(util.DetermineError(err, errorcodes.Known), cluster.Shoot, time.Now())
}

// attemptTimeout bounds requests to a provider cluster that need not respond: in a forced deletion, and if
// nothing was written.
const attemptTimeout = time.Minute

// delete deletes the objects of a shoot. Without a record, it does so only because older versions of the
// extension recorded nothing before their first success: credentials that do not work wrote nothing.
func (a *actuator) delete(ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) error {
	if isRecorded(infra) {
		return a.deleteObjects(ctx, infra, cluster, (*shoot).delete)
	}

	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	err := a.deleteObjects(ctx, infra, cluster, (*shoot).delete)
	if unchanged := (*unchangedError)(nil); !providercluster.IsFailure(err) && !errors.As(err, &unchanged) {
		return err
	}

	log.Info("Infrastructure is deleted without the provider cluster, since nothing was created there", "reason", err.Error())

	return nil
}

func (a *actuator) deleteObjects(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, do func(*shoot, context.Context) error,
) error {
	s, err := a.shootOf(ctx, infra, cluster)
	if err != nil {
		return err
	}

	defer s.provider.Close()

	return do(s, ctx)
}

func (s *shoot) delete(ctx context.Context) error {
	if err := s.deleteLoadBalancers(ctx); err != nil {
		return err
	}

	if err := s.deleteUnusedNetworks(ctx); err != nil {
		return err
	}

	if err := s.deleteIsolation(ctx); err != nil {
		return err
	}

	return s.deleteNamespace(ctx)
}

// forceDelete continues after errors. The namespace is deleted with the virtual machines that remain.
func (s *shoot) forceDelete(ctx context.Context) error {
	return errors.Join(s.deleteLoadBalancers(ctx), s.deleteUnusedNetworks(ctx), s.deleteIsolation(ctx), s.deleteNamespace(ctx))
}

// deleteUnusedNetworks deletes the networks of a shoot whose Worker is gone. It returns an error if virtual
// machines use them: nothing deletes these machines any more.
func (s *shoot) deleteUnusedNetworks(ctx context.Context) error {
	used, err := s.deleteNetworks(ctx, nil)
	if err != nil || len(used) == 0 {
		return err
	}

	return fmt.Errorf("virtual machines of the shoot in namespace %s of the provider cluster still use the networks %s; delete them",
		s.namespace, providercluster.Names(used))
}

// ForceDelete implements infrastructure.Actuator. It deletes what it can.
func (a *actuator) ForceDelete(
	ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	if err := a.deleteObjects(ctx, infra, cluster, (*shoot).forceDelete); err != nil {
		log.Info("Failed to delete objects in the provider cluster during forced deletion; they may remain", "label", kubevirt.LabelShoot+"="+cluster.Shoot.Status.TechnicalID, "reason", err.Error())
	}

	return nil
}
