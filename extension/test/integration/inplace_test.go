// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestInPlaceUpdate updates Kubernetes on the nodes of a pool: the virtual machine stays.
func TestInPlaceUpdate(t *testing.T) {
	t.Parallel()

	shoot := newShoot(t, named("inplace"))
	w := pool(shoot, 0)
	w.Minimum, w.Zones, w.UpdateStrategy = 1, w.Zones[:1], ptr.To(gardencorev1beta1.AutoInPlaceUpdate)
	w.MaxSurge = nil
	w.MaxUnavailable = nil

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)

	before := machines(t, shoot)
	known := classes(t, shoot)

	agents, stop := context.WithCancel(t.Context())
	defer stop()

	go updateNodes(agents, shoot)

	shoot.Object.Spec.Kubernetes.Version = semver.MustParse(theSeed.KubernetesVersion()).IncMinor().String()
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)
	require.Equal(t, before, machines(t, shoot))
	require.NotEqual(t, known, classes(t, shoot))

	requireNothingLeft(t, shoot)
}

// updateNodes does what gardener-node-agent does on the nodes that machine-controller-manager selects.
func updateNodes(ctx context.Context, shoot *seed.Botanist) {
	const every = 500 * time.Millisecond

	for ctx.Err() == nil {
		machines := &machinev1alpha1.MachineList{}
		nodes := &corev1.NodeList{}
		_ = theSeed.Client.List(ctx, machines, client.InNamespace(shoot.Namespace)) // The next iteration retries.
		_ = theSeed.Target.List(ctx, nodes)

		for i := range nodes.Items {
			node := &nodes.Items[i]
			if !slices.ContainsFunc(machines.Items, func(m machinev1alpha1.Machine) bool { return m.Name == node.Name }) || !isReadyForUpdate(node) {
				continue
			}

			before := node.DeepCopy()
			node.Labels[machinev1alpha1.LabelKeyNodeUpdateResult] = machinev1alpha1.LabelValueNodeUpdateSuccessful
			_ = theSeed.Target.Patch(ctx, node, client.MergeFrom(before))
		}

		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func isReadyForUpdate(node *corev1.Node) bool {
	return node.Labels[machinev1alpha1.LabelKeyNodeUpdateResult] == "" && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == machinev1alpha1.NodeInPlaceUpdate && c.Reason == machinev1alpha1.ReadyForUpdate
	})
}
