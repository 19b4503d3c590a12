// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/networkpolicy"
)

// TestEnsureMachineControllerManagerDeployment_ReachesShootOfSameSeed requires
// machine-controller-manager, in which the driver runs, to reach a provider cluster that is a shoot of
// the same seed.
func TestEnsureMachineControllerManagerDeployment_ReachesShootOfSameSeed(t *testing.T) {
	t.Parallel()

	d := deployment()
	require.False(t, networkpolicy.ReachesIstio(t, &d.Spec.Template), "without the webhook")

	gctx := gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: &gardencorev1beta1.Shoot{}})
	require.NoError(t, (&ensurer{seed: seedWith(t, nil)}).EnsureMachineControllerManagerDeployment(t.Context(), gctx, d, nil))
	require.True(t, networkpolicy.ReachesIstio(t, &d.Spec.Template))
}
