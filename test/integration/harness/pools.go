// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// ReplaceInSpec returns a ProviderSpec with a substring replaced that it must contain.
func ReplaceInSpec(t *testing.T, spec runtime.RawExtension, old, with string) []byte {
	t.Helper()
	require.Contains(t, string(spec.Raw), old)

	return []byte(strings.ReplaceAll(string(spec.Raw), old, with))
}

// PoolLabel is Gardener's label of a worker pool's nodes. All shoots of the lab share one target
// cluster, so a pool's name must be unique there.
const PoolLabel = "worker.gardener.cloud/pool"

// AddPool creates a MachineDeployment and a class with the given ProviderSpec. Its nodes carry the
// MachineDeployment's name as their pool label.
func (s *Shoot) AddPool(t *testing.T, name string, replicas int32, spec []byte, changes ...func(*v1alpha1.MachineDeploymentSpec)) {
	t.Helper()

	class := &v1alpha1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provider:             "kubevirt",
		ProviderSpec:         runtime.RawExtension{Raw: spec},
		CredentialsSecretRef: &corev1.SecretReference{Name: "cloudprovider", Namespace: s.Namespace},
		SecretRef:            &corev1.SecretReference{Name: "example-worker-userdata", Namespace: s.Namespace},
	}
	_, err := s.MCM.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	labels := map[string]string{"name": name}
	one := intstr.FromInt32(1)
	none := intstr.FromInt32(0)
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: v1alpha1.MachineDeploymentStrategy{
				Type: v1alpha1.RollingUpdateMachineDeploymentStrategyType,
				RollingUpdate: &v1alpha1.RollingUpdateMachineDeployment{
					UpdateConfiguration: v1alpha1.UpdateConfiguration{MaxSurge: &one, MaxUnavailable: &none},
				},
			},
			Template: v1alpha1.MachineTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1alpha1.MachineSpec{
					Class: v1alpha1.ClassSpec{Kind: "MachineClass", Name: name},
					NodeTemplateSpec: v1alpha1.NodeTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{PoolLabel: name}},
					},
				},
			},
		},
	}
	for _, change := range changes {
		change(&deployment.Spec)
	}

	_, err = s.MCM.MachineV1alpha1().MachineDeployments(s.Namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	require.NoError(t, err)
}

// OneOf waits until a pool consists of one running Machine, and returns it.
func (s *Shoot) OneOf(t *testing.T, pool string) *v1alpha1.Machine {
	t.Helper()

	var one *v1alpha1.Machine

	Eventually(t, "one machine of "+pool+" runs", func(ctx context.Context) (bool, error) {
		list, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + pool})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}

		one = &list.Items[0]

		return observer.IsAvailable(one), nil
	})

	return one
}
