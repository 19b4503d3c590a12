// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Findings returns an error with what the provider cluster does not have any more, but the machines of a shoot
// need: those that run may continue, but no others start. The health check reports it. What cannot be read is
// skipped, except for an ErrBusy: then the findings are not complete.
func Findings(
	ctx context.Context, provider *providercluster.Cluster, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	f := newFlow(provider, infra, cluster)
	all := &running{}

	faults := slices.Concat(f.checkSharedNetworks(ctx), f.checkVirtualNetworks(ctx), f.checkMachines(ctx, infra.Spec.Region, cluster, all))

	if missing, err := f.checkPermissions(ctx); f.note(err) == nil {
		faults = append(faults, missing...)
	}

	return f.result(faults)
}

// note returns the error of an optional request. It remembers an ErrBusy.
func (f *flow) note(err error) error {
	if errors.Is(err, providercluster.ErrBusy) {
		f.busy = err
	}

	return err
}

// result returns the error of all faults. Without faults, it returns the error of a check that was not completed.
func (f *flow) result(faults []fault) error {
	if len(faults) == 0 {
		return f.busy
	}

	return errorOf(faults)
}
