// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// poolChange is a change of a worker pool, and whether it replaces the pool's machine.
type poolChange struct {
	// pool is the name of the pool.
	pool     string
	replaces bool
	change   func(*testing.T, *gardencorev1beta1.Worker)
	// check checks the machine after the change.
	check func(*testing.T, *kubevirtv1.VirtualMachine)
}

func poolChanges() []poolChange {
	return []poolChange{
		{
			pool:     "image",
			replaces: true,
			change: func(_ *testing.T, w *gardencorev1beta1.Worker) {
				w.Machine.Image.Version = ptr.To("20.4.20210401")
			},
			check: func(t *testing.T, vm *kubevirtv1.VirtualMachine) {
				t.Helper()

				image := &cdiv1beta1.DataVolume{}
				require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: vm.Namespace, Name: vm.Labels[providerspec.LabelGoldenImage]}, image))
				require.Contains(t, image.Spec.Source.HTTP.URL, "focal")
			},
		},
		{
			pool:     "config",
			replaces: true,
			change: func(t *testing.T, w *gardencorev1beta1.Worker) {
				t.Helper()
				w.ProviderConfig = config(t, "WorkerConfig", "cpu: {sockets: 2}")
			},
			check: func(t *testing.T, vm *kubevirtv1.VirtualMachine) {
				t.Helper()
				require.EqualValues(t, 2, vm.Spec.Template.Spec.Domain.CPU.Sockets)
			},
		},
		{
			pool:     "data-volume",
			replaces: true,
			change: func(_ *testing.T, w *gardencorev1beta1.Worker) {
				w.DataVolumes = []gardencorev1beta1.DataVolume{{Name: "data", VolumeSize: "5Gi"}}
			},
			check: func(t *testing.T, vm *kubevirtv1.VirtualMachine) {
				t.Helper()
				require.Contains(t, disksOf(vm), "data")
			},
		},
		{
			pool: "labels",
			change: func(_ *testing.T, w *gardencorev1beta1.Worker) {
				w.Labels = map[string]string{"team": "blue"}
				w.Annotations = map[string]string{"example.com/owner": "blue"}
				w.Taints = []corev1.Taint{{Key: "team", Value: "blue", Effect: corev1.TaintEffectNoSchedule}}
			},
			check: func(t *testing.T, vm *kubevirtv1.VirtualMachine) {
				t.Helper()
				eventually(t, func(ctx context.Context) (bool, string) {
					node := &corev1.Node{}
					if err := theSeed.Target.Get(ctx, client.ObjectKey{Name: vm.Name}, node); err != nil {
						return false, err.Error()
					}

					return node.Labels["team"] == "blue" && node.Annotations["example.com/owner"] == "blue", "the Node has no label or annotation"
				})
			},
		},
		{
			pool: "autoscaler",
			change: func(_ *testing.T, w *gardencorev1beta1.Worker) {
				w.ClusterAutoscaler = &gardencorev1beta1.ClusterAutoscalerOptions{ScaleDownUtilizationThreshold: ptr.To(0.7)}
				w.Priority = ptr.To(int32(7))
				w.Maximum = 7
			},
		},
	}
}

// TestRollingUpdate changes each pool of a shoot in another way, all with one reconciliation, and then
// the network of all pools.
func TestRollingUpdate(t *testing.T) { //nolint:tparallel // The steps change one shoot.
	t.Parallel()

	changes := poolChanges()
	shoot := newShoot(t, named("rolled"), onePoolPerChange(changes))

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, len(changes))

	t.Run("pools", func(t *testing.T) {
		before := machinesOfPools(t, shoot)

		for i := range changes {
			changes[i].change(t, pool(shoot, i))
		}

		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, len(changes))

		after := machinesOfPools(t, shoot)
		for _, change := range changes {
			require.Equal(t, change.replaces, before[change.pool] != after[change.pool], change.pool)

			if change.check != nil {
				change.check(t, virtualMachine(t, shoot, after[change.pool]))
			}
		}
	})

	t.Run("network", func(t *testing.T) {
		before := machines(t, shoot)
		shoot.Object.Spec.Provider.InfrastructureConfig = config(t, "InfrastructureConfig",
			`networks: {tenantNetworks: [{name: second, config: '{"cniVersion": "0.4.0", "name": "second", "type": "bridge"}'}]}`)

		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, len(changes))
		require.Zero(t, kept(before, machines(t, shoot)))

		for name := range machines(t, shoot) {
			require.Equal(t, shoot.ProviderNamespace+"/"+shoot.Namespace+"-second", virtualMachine(t, shoot, name).Spec.Template.Spec.Networks[1].Multus.NetworkName)
		}
	})

	requireNothingLeft(t, shoot)
}

func onePoolPerChange(changes []poolChange) func(*gardencorev1beta1.Shoot) {
	return func(s *gardencorev1beta1.Shoot) {
		template := s.Spec.Provider.Workers[0]
		template.Minimum, template.Zones = 1, template.Zones[:1]
		s.Spec.Provider.Workers = nil

		for _, change := range changes {
			w := template.DeepCopy()
			w.Name = change.pool
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, *w)
		}
	}
}

func virtualMachine(t *testing.T, s *seed.Botanist, name string) *kubevirtv1.VirtualMachine {
	t.Helper()

	vm := &kubevirtv1.VirtualMachine{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: s.ProviderNamespace, Name: name}, vm))

	return vm
}

// machinesOfPools returns the name of each pool's machine.
func machinesOfPools(t *testing.T, s *seed.Botanist) map[string]string {
	t.Helper()

	names := map[string]string{}

	for name := range machines(t, s) {
		for _, w := range s.Object.Spec.Provider.Workers {
			if strings.HasPrefix(name, s.Namespace+"-"+w.Name+"-z1-") {
				names[w.Name] = name
			}
		}
	}

	return names
}
