// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestPerform requires the progress of each task, and no task after one that failed.
func TestPerform(t *testing.T) {
	t.Parallel()

	var (
		failure  = errors.New("failed")
		progress []any
		done     int
	)

	s := &Botanist{Progress: func(task string, percent int32) { progress = append(progress, task, percent) }}
	succeeds := func(context.Context) error { done++; return nil }

	err := s.perform(t.Context(), task{"a", succeeds}, task{"b", func(context.Context) error { return failure }}, task{"c", succeeds}, task{"d", succeeds})
	require.ErrorIs(t, err, failure)
	require.Equal(t, []any{"a", int32(0), "b", int32(25)}, progress)
	require.Equal(t, 1, done)
}

// TestWait_Errors requires the error of a resource after gardenlet's own time: a user waits for nothing else before
// the Shoot shows it.
func TestWait_Errors(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		wait func(context.Context, *Botanist) error
		want time.Duration
	}{
		"Infrastructure": {func(ctx context.Context, s *Botanist) error { return s.Infrastructure().Wait(ctx) }, 3 * time.Minute},
		"ControlPlane": {func(ctx context.Context, s *Botanist) error {
			c, err := s.ControlPlane(ctx)
			require.NoError(t, err)

			return c.Wait(ctx)
		}, 30 * time.Second},
		"Worker": {func(ctx context.Context, s *Botanist) error {
			w, err := s.Worker(ctx)
			require.NoError(t, err)

			return w.Wait(ctx)
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := tc.wait(t.Context(), newFailedShoot())

				require.ErrorContains(t, err, "no StorageClass")
				require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err))
				require.WithinDuration(t, begun.Add(tc.want), time.Now(), 5*time.Second)
			})
		})
	}
}

// newFailedShoot returns a shoot whose resources in the seed have an error.
func newFailedShoot() *Botanist {
	meta := metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "a"}
	status := extensionsv1alpha1.DefaultStatus{LastError: &gardencorev1beta1.LastError{
		Description: "no StorageClass",
		Codes:       []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem},
	}}

	client := fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(
		&extensionsv1alpha1.Infrastructure{ObjectMeta: meta, Status: extensionsv1alpha1.InfrastructureStatus{DefaultStatus: status}},
		&extensionsv1alpha1.ControlPlane{ObjectMeta: meta, Status: extensionsv1alpha1.ControlPlaneStatus{DefaultStatus: status}},
		&extensionsv1alpha1.Worker{ObjectMeta: meta, Status: extensionsv1alpha1.WorkerStatus{DefaultStatus: status}},
	).Build()

	return &Botanist{
		Namespace: meta.Namespace,
		seed:      &Seed{Client: client},
		Profile:   &gardencorev1beta1.CloudProfile{},
		Object:    &gardencorev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Spec: gardencorev1beta1.ShootSpec{Kubernetes: gardencorev1beta1.Kubernetes{Version: "1.34.2"}}},
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()

	failed := errors.New("no StorageClass")
	refused := v1beta1helper.NewErrorWithCodes(failed, gardencorev1beta1.ErrorConfigurationProblem)

	for name, tc := range map[string]struct {
		reason  string
		errs    []error // of the calls
		repeats bool
		calls   int
		want    error
	}{
		"Success":  {reason: "nothing to repeat", errs: []error{nil}, repeats: true, calls: 1},
		"Repeated": {reason: "the StorageClass was created", errs: []error{failed, failed, nil}, repeats: true, calls: 3},
		"Final":    {reason: "gardenlet waits for a change of the Shoot", errs: []error{refused}, repeats: true, calls: 1, want: refused},
		"Once":     {reason: "the caller reports and repeats it", errs: []error{failed}, calls: 1, want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				s := &Botanist{}
				calls := 0
				reported := 0
				if tc.repeats {
					s.Repeats = func(error) { reported++ }
				}

				err := s.await(t.Context(), func(context.Context) error {
					calls++

					return tc.errs[calls-1]
				})
				require.Equal(t, tc.want, err, tc.reason)
				require.Equal(t, tc.calls, calls, tc.reason)

				if err == nil {
					require.Equal(t, calls-1, reported)
				}
			})
		})
	}
}
