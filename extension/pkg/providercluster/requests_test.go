// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// TestRequests_TimeLimit bounds requests of a reconciliation, whose own deadline is twenty minutes.
func TestRequests_TimeLimit(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()

	untilDeadline := func(of *requests) (left time.Duration) {
		require.NoError(t, of.send(ctx, func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)

			return nil
		}))

		return left
	}

	r := newRequests(nil, nil)
	require.LessOrEqual(t, untilDeadline(r), transport.RequestTimeout)

	r.used = totalTimeout - time.Second
	require.LessOrEqual(t, untilDeadline(r), time.Second)

	r.used = totalTimeout
	err := r.send(ctx, func(context.Context) error { panic("no request is sent") })
	require.ErrorContains(t, err, "provider cluster: it responds too slowly")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, r.DeleteAllOf(ctx, &corev1.Secret{}), errTotalTimeout)
}

// TestSend_TotalTimeout sends requests that take twenty seconds each until the reconciliation has no time left.
func TestSend_TotalTimeout(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		r := newRequests(nil, nil)
		slow := func(context.Context) error {
			time.Sleep(20 * time.Second) //nolint:forbidigo // The bubble's clock.

			return nil
		}

		for range totalTimeout / (20 * time.Second) {
			require.NoError(t, r.send(t.Context(), slow))
		}

		require.ErrorIs(t, r.send(t.Context(), slow), errTotalTimeout)
	})
}
