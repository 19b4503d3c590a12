// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
)

// Restore implements infrastructure.Actuator. Another seed has written the objects, and the machines
// run: nothing is new. Older versions of the extension did not record the networks in the state.
func (a *actuator) Restore(
	ctx context.Context, _ logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	if err := a.recordWrite(ctx, infra, "", nil); err != nil {
		return err
	}

	return a.reconcile(ctx, infra, cluster, &running{everything: true, unrecorded: infra.Status.State == nil})
}
