// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestEvacuation evicts a machine from its provider node as a drain does: the driver, as the webhook runs it, has
// machine-controller-manager replace the machine, and KubeVirt never shuts down the guest by itself.
func TestEvacuation(t *testing.T) {
	t.Parallel()

	shoot := newShoot(t, named("evacuated"))
	w := pool(shoot, 0)
	w.Minimum, w.Maximum, w.Zones = 1, 1, w.Zones[:1]

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)
	requireEvacuation(t, shoot)

	machine := onlyMachine(t, shoot)
	require.Equal(t, kubevirtv1.EvictionStrategyExternal, *machine.Spec.Template.Spec.EvictionStrategy)

	evict(t, shoot, machine.Name)

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Provider.Get(ctx, client.ObjectKeyFromObject(machine), &kubevirtv1.VirtualMachine{})

		return apierrors.IsNotFound(err), "the machine is not replaced"
	})
	requireReadyNodes(t, shoot, 1)
	requireNothingLeft(t, shoot)
}

// requireEvacuation requires the argument of the driver, and the reports of the extension.
func requireEvacuation(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	key := client.ObjectKey{Namespace: shoot.Namespace, Name: shoot.Object.Name}

	infra := &extensionsv1alpha1.Infrastructure{}
	require.NoError(t, theSeed.Client.Get(t.Context(), key, infra))

	status := &api.InfrastructureStatus{}
	require.Empty(t, api.Decode(infra.Status.ProviderStatus, nil, status))
	require.True(t, status.Evacuation)

	mcm := &appsv1.Deployment{}
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: "machine-controller-manager"}, mcm))

	var args []string
	for _, c := range mcm.Spec.Template.Spec.Containers {
		args = append(args, c.Args...)
	}

	require.Contains(t, args, "--evacuation=true")

	w := &extensionsv1alpha1.Worker{}
	require.NoError(t, theSeed.Client.Get(t.Context(), key, w))

	pools := &api.WorkerStatus{}
	require.Empty(t, api.Decode(w.Status.ProviderStatus, nil, pools))
	require.Len(t, pools.NotMigratable, 1)
	require.Contains(t, pools.NotMigratable[0].Reason, "connects the machine to the pod network by a bridge")
}

// evict requests the eviction of a machine's pod, which KubeVirt refuses.
func evict(t *testing.T, shoot *seed.Botanist, machine string) {
	t.Helper()

	pods := &corev1.PodList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), pods, client.InNamespace(shoot.ProviderNamespace),
		client.MatchingLabels{"kubevirt.io": "virt-launcher", "kubevirt.machine.gardener.cloud/machine": machine}))
	require.Len(t, pods.Items, 1)

	err := theSeed.Provider.SubResource("eviction").Create(t.Context(), &pods.Items[0], &policyv1.Eviction{})
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
}
