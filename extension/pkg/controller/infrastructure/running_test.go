// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// startMachines writes what the Worker and machine-controller-manager write for the pool of shootWithPool: three
// machines in europe-west1-c.
func (l *landscape) startMachines(t *testing.T) {
	t.Helper()

	const name = technicalID + "-cpu-worker-z1"

	meta := metav1.ObjectMeta{Namespace: technicalID, Name: name}

	require.NoError(t, l.actuator.seed.Create(t.Context(), &machinev1alpha1.MachineClass{
		ObjectMeta:   meta,
		NodeTemplate: &machinev1alpha1.NodeTemplate{Zone: "europe-west1-c"},
		ProviderSpec: runtime.RawExtension{Raw: []byte(`{"rootVolume": {"storage": {"storageClassName": "default"}},
			"additionalVolumes": [{"name": "data", "dataVolume": {"storage": {"storageClassName": "slow"}}}]}`)},
	}))

	deployment := &machinev1alpha1.MachineDeployment{ObjectMeta: meta, Spec: machinev1alpha1.MachineDeploymentSpec{Replicas: 3}}
	deployment.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"worker.gardener.cloud/pool": "cpu-worker"}
	require.NoError(t, l.actuator.seed.Create(t.Context(), deployment))
}

func smallQuota() *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "machines"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("2")}},
	}
}

// TestReconcile_RunningShoot reconciles a shoot whose machines run, whatever the provider cluster lost: the
// condition of the Shoot reports it. What is new is refused.
func TestReconcile_RunningShoot(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		// lost changes the provider cluster, and added the Shoot.
		lost  func(*providerState)
		added func(*gardencorev1beta1.ShootSpec)
		// refused is in the error; empty if there is none.
		refused string
	}{
		"Quota":        {lost: func(p *providerState) { p.objects = append(p.objects, smallQuota()) }},
		"LastNode":     {lost: func(p *providerState) { p.objects = p.objects[1:] }},
		"StorageClass": {lost: func(p *providerState) { p.objects = p.objects[:1] }},
		"Permission":   {lost: func(p *providerState) { p.denied["secrets"] = true }},
		"NewMinimum": {
			lost:    func(p *providerState) { p.objects = append(p.objects, smallQuota()) },
			added:   func(s *gardencorev1beta1.ShootSpec) { s.Provider.Workers[0].Minimum = 4 },
			refused: "ResourceQuota machines",
		},
		"NewPool": {
			lost: func(p *providerState) { p.objects = append(p.objects, smallQuota()) },
			added: func(s *gardencorev1beta1.ShootSpec) {
				pool := *s.Provider.Workers[0].DeepCopy()
				pool.Name = "new"
				pool.Minimum = 1
				s.Provider.Workers = append(s.Provider.Workers, pool)
			},
			refused: "ResourceQuota machines",
		},
		"NewZone": {
			added: func(s *gardencorev1beta1.ShootSpec) {
				s.Provider.Workers[0].Zones = append(s.Provider.Workers[0].Zones, "europe-west1-d")
			},
			refused: "zone europe-west1-d",
		},
		"NewVolumeType": {
			added:   func(s *gardencorev1beta1.ShootSpec) { s.Provider.Workers[0].Volume.Type = ptr.To("fast") },
			refused: "no StorageClass nvme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := shootWithPool(t, config())
			p := healthy()
			l.infra.Spec.Region = "europe-west1"
			l.startMachines(t)

			if tc.lost != nil {
				tc.lost(p)
			}

			if tc.added != nil {
				tc.added(&l.cluster.Shoot.Spec)
			}

			l.provider = p.cluster()
			err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)

			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)

				return
			}

			require.NoError(t, err)
		})
	}
}

// TestRestore_RunningShoot restores a shoot on a seed that does not have its machines yet.
func TestRestore_RunningShoot(t *testing.T) {
	t.Parallel()

	l := shootWithPool(t, &api.InfrastructureConfig{})
	p := healthy()
	l.infra.Spec.Region = "europe-west1"
	p.objects = []client.Object{smallQuota()}
	l.provider = p.cluster()
	require.NoError(t, l.actuator.Restore(t.Context(), logr.Discard(), l.infra, l.cluster))
}
