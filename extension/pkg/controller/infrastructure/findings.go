package infrastructure

import (
	"context"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Findings returns an error with what the provider cluster does not have any more, but the machines of a shoot
// need: those that run may continue, but no others start. The health check reports it. What cannot be read is
// skipped.
func Findings(
	ctx context.Context, provider *providercluster.Cluster, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	s, all := newShoot(provider, infra, cluster), &running{}

	faults := slices.Concat(s.checkSharedNetworks(ctx), s.checkMachines(ctx, infra.Spec.Region, cluster, all))

	if missing, err := s.checkPermissions(ctx); err == nil {
		faults = append(faults, missing...)
	}

	return errorOf(faults)
}
