// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RequestForCDI lets each of CDI's pods on the provider cluster request an amount of CPU until the end of the test.
func (s *Shoot) RequestForCDI(t *testing.T, cpu string) {
	t.Helper()

	wanted, limit := resource.MustParse(cpu), resource.MustParse("750m") // CDI's default
	if limit.Cmp(wanted) < 0 {
		limit = wanted
	}

	s.configureCDI(t.Context(), t, &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: wanted},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: limit},
	})
	t.Cleanup(func() { s.configureCDI(context.WithoutCancel(t.Context()), t, nil) })

	Eventually(t, "CDI's pods request "+cpu, func(ctx context.Context) (bool, error) {
		config, err := s.CDI.CdiV1beta1().CDIConfigs().Get(ctx, "config", metav1.GetOptions{})
		if err != nil || config.Status.DefaultPodResourceRequirements == nil {
			return false, err
		}

		return config.Status.DefaultPodResourceRequirements.Requests.Cpu().Equal(wanted), nil
	})
}

func (s *Shoot) configureCDI(ctx context.Context, t *testing.T, pods *corev1.ResourceRequirements) {
	t.Helper()

	patch := MarshalPatch(t, map[string]any{"spec": map[string]any{"config": map[string]any{"podResourceRequirements": pods}}})
	_, err := s.CDI.CdiV1beta1().CDIs().Patch(ctx, "cdi", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
