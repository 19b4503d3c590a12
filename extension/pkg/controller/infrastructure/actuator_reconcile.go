// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Reconcile implements infrastructure.Actuator.
func (a *actuator) Reconcile(
	ctx context.Context, _ logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	r, err := runningMachines(ctx, a.seed, cluster, infra.Namespace)
	if err != nil {
		return err
	}

	return a.reconcile(ctx, infra, cluster, r)
}

func (a *actuator) reconcile(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, r *running) error {
	err := providercluster.Explain(a.reconcileObjects(ctx, infra, cluster, r))

	return util.DetermineError(err, errorcodes.Known)
}

func (a *actuator) reconcileObjects(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, r *running) error {
	f, err := a.newFlow(ctx, infra, cluster)
	if err != nil {
		return err
	}

	defer f.provider.Close()

	if err := f.adoptDefaults(infra.Status.State == nil && !r.hasMachines()); err != nil {
		return err
	}

	if err := f.reconcileNamespace(ctx); err != nil {
		return err
	}

	if err := f.check(ctx, infra.Spec.Region, cluster, r); err != nil {
		return err
	}

	if err := f.record(ctx); err != nil {
		return err
	}

	networks, err := f.reconcileNetworks(ctx, r)
	if err != nil {
		return err
	}

	if err := f.reconcileIsolation(ctx); err != nil {
		return err
	}

	evacuation, denied := f.evacuates(ctx)

	return a.updateStatus(ctx, infra, f, cluster.Shoot.Spec.Networking, &api.InfrastructureStatus{
		TypeMeta:         api.TypeMeta("InfrastructureStatus"),
		Namespace:        f.namespace,
		Evacuation:       evacuation,
		EvacuationDenied: denied,
		PodNetwork:       f.podNetwork(),
		Networks:         networks,
	}, &api.InfrastructureState{
		TypeMeta:          api.TypeMeta("InfrastructureState"),
		Evacuation:        evacuation,
		EvacuationDenied:  denied,
		DefaultPodNetwork: f.state.DefaultPodNetwork,
		VirtualNetworks:   f.withConfigured(slices.DeleteFunc(f.remaining, func(t api.TenantNetworkType) bool { return !isVirtual(t) })),
		Networks:          f.found,
	})
}
