// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

var errWebhook = errors.New("failed calling webhook")

// newGarden returns a landscape with a fake garden, whose admission is called for writes of main resources.
func newGarden(admission func() error, objects ...client.Object) *landscape {
	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(objects...).WithStatusSubresource(&gardencorev1beta1.Shoot{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := admission(); err != nil {
					return err
				}

				return c.Patch(ctx, object, patch, options...)
			},
		}).Build()

	return &landscape{out: screen.New(io.Discard), seed: &seed.Seed{Garden: garden}}
}

func shootOf(name string, age time.Duration) *gardencorev1beta1.Shoot {
	return &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))},
		Spec:       gardencorev1beta1.ShootSpec{SeedName: ptr.To(seedName), Provider: gardencorev1beta1.Provider{Type: providerType}},
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()

	old := shootOf("old", time.Hour)
	a := shootOf("a", time.Minute)
	b := shootOf("b", time.Minute)
	young := shootOf("young", 0)

	for current, want := range map[*managedShoot][]string{
		nil:                                      {"old", "a", "b", "young"},
		{key: client.ObjectKeyFromObject(young)}: {"young", "old", "a", "b"},
	} {
		shoots := []gardencorev1beta1.Shoot{*young, *b, *a, *old}
		order(shoots, current)

		var names []string
		for _, s := range shoots {
			names = append(names, s.Name)
		}

		require.Equal(t, want, names)
	}
}

// TestStatusWithoutAdmission requires the status of a Shoot to be written while the admission does not respond.
func TestStatusWithoutAdmission(t *testing.T) {
	t.Parallel()

	s := shootOf("a", 0)
	l := newGarden(func() error { return errWebhook }, s)

	require.NoError(t, l.patchStatus(t.Context(), client.ObjectKeyFromObject(s), func(status *gardencorev1beta1.ShootStatus) {
		begin(status, s, gardencorev1beta1.LastOperationTypeCreate)
	}))
	require.ErrorIs(t, l.labelShoots(t.Context()), errWebhook)
	require.NoError(t, l.seed.Garden.Get(t.Context(), client.ObjectKeyFromObject(s), s))
	require.Equal(t, gardencorev1beta1.LastOperationStateProcessing, s.Status.LastOperation.State)
}

// TestRelease requires a deleted Shoot to be released as soon as the admission responds, and not to be deleted again: the
// landscape has no clients for the clusters of a deletion.
func TestRelease(t *testing.T) {
	t.Parallel()

	s := shootOf("a", 0)
	s.Finalizers = []string{gardencorev1beta1.GardenerName}
	s.DeletionTimestamp = ptr.To(metav1.Now())
	s.Status.LastOperation = &gardencorev1beta1.LastOperation{Type: gardencorev1beta1.LastOperationTypeDelete, State: gardencorev1beta1.LastOperationStateProcessing}

	unavailable := errWebhook
	l := newGarden(func() error { return unavailable }, s)
	key := client.ObjectKeyFromObject(s)
	l.setCurrent(&managedShoot{Botanist: &seed.Botanist{Object: s.DeepCopy()}, key: key})

	require.ErrorIs(t, l.finish(t.Context(), key, gardencorev1beta1.LastOperationTypeDelete), errWebhook)
	require.NotNil(t, l.current(), "others wait")
	require.ErrorIs(t, l.reconcileShoots(t.Context()), errWebhook)

	unavailable = nil

	require.NoError(t, l.reconcileShoots(t.Context()))
	require.True(t, apierrors.IsNotFound(l.seed.Garden.Get(t.Context(), key, s)))
	require.Nil(t, l.current())
}

// TestAdoptAnother requires a Shoot not to get the control plane of another one.
func TestAdoptAnother(t *testing.T) {
	t.Parallel()

	a := shootOf("a", 0)
	b := shootOf("b", 0)
	l := newGarden(func() error { return nil }, a, b)
	l.setCurrent(&managedShoot{Botanist: &seed.Botanist{Object: a}, key: client.ObjectKeyFromObject(a)})

	_, err := l.adopt(t.Context(), client.ObjectKeyFromObject(b))
	require.ErrorIs(t, err, errOccupied)
	require.ErrorContains(t, err, "garden-dev/a")
}

// TestStopPods requires the end of pods to be waited for only until the context ends.
func TestStopPods(t *testing.T) {
	t.Parallel()

	l := &landscape{}
	require.NoError(t, l.stopPods(t.Context()))

	failure := errors.New("failed")
	l.setCurrent(&managedShoot{Botanist: &seed.Botanist{StopPods: func() error { return failure }}})
	require.ErrorIs(t, l.stopPods(t.Context()), failure)

	ctx, cancel := context.WithCancel(t.Context())
	l.setCurrent(&managedShoot{Botanist: &seed.Botanist{StopPods: func() error {
		cancel()
		<-t.Context().Done()

		return nil
	}}})
	require.ErrorIs(t, l.stopPods(ctx), context.Canceled)
}
