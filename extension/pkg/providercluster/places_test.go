// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// responding returns a client of a server that responds after a time.
func responding(after time.Duration) client.Client {
	return fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(&corev1.Node{}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(after):
				object.SetName(key.Name)
				object.SetNamespace(key.Namespace)

				return nil
			}
		},
	}).Build()
}

// reconcile sends thirty requests.
func reconcile(ctx context.Context, c client.Client) error {
	for range 30 {
		if err := c.Get(ctx, client.ObjectKey{Name: "node"}, &corev1.Node{}); err != nil {
			return err
		}
	}

	return nil
}

// healthyAfter returns the time until a controller has reconciled a healthy shoot that is queued behind
// others with slow servers. A slow shoot is queued again at once. Its server responds just in time, so
// that only the time of all requests together ends the reconciliation.
func healthyAfter(ctx context.Context, workers, slow int, p places) time.Duration {
	const healthy = "healthy"

	queue := workqueue.NewTyped[string]()
	done := make(chan time.Duration, 1)
	begin := time.Now()
	for i := range slow {
		queue.Add(fmt.Sprint(i))
	}

	queue.Add(healthy)

	for range workers {
		go func() {
			for {
				shoot, stopped := queue.Get()
				if stopped {
					return
				}

				after := 29 * time.Second
				if shoot == healthy {
					after = 20 * time.Millisecond
				}

				if err := reconcile(ctx, newRequests(responding(after), p)); err != nil {
					queue.Add(shoot)
				} else if shoot == healthy {
					done <- time.Since(begin)
				}

				queue.Done(shoot)
			}
		}()
	}

	defer queue.ShutDown()

	return <-done
}

// TestNewClients_SlowServers measures the delay of a healthy shoot by twenty shoots with slow servers,
// with a clock that jumps.
func TestNewClients_SlowServers(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason         string
		workers, slow  int
		places         places
		delay, atLeast time.Duration
	}{
		"Before":  {reason: "all workers wait for slow servers", workers: 5, slow: 20, delay: 9 * time.Minute, atLeast: 8 * time.Minute},
		"Default": {reason: "five workers have a place; the others end each reconciliation after five seconds", workers: 10, slow: 20, places: newPlaces(10), delay: 16 * time.Second},
		"Hundred": {reason: "the delay grows with the number of slow servers", workers: 10, slow: 100, places: newPlaces(10), delay: 96 * time.Second},
		"Few":     {reason: "slow servers hold half of the workers at most", workers: 10, slow: 5, places: newPlaces(10), delay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				delay := healthyAfter(ctx, tc.workers, tc.slow, tc.places)

				cancel() // The reconciliations of slow shoots end.

				t.Logf("%d workers, %d slow servers: %s", tc.workers, tc.slow, delay)
				require.LessOrEqual(t, delay, tc.delay, tc.reason)
				require.GreaterOrEqual(t, delay, tc.atLeast, tc.reason)
			})
		})
	}
}

// TestTakeAfter has one place for two slow requests.
func TestTakeAfter(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		only := newPlaces(1)
		first := newRequests(responding(10*time.Second), only)
		second := newRequests(responding(6*time.Second), only)
		ended := make(chan error)

		go func() { ended <- reconcile(t.Context(), first) }()

		synctest.Wait()
		require.Empty(t, only, "no place is taken before the time has passed")

		time.Sleep(promptTimeout + time.Second) //nolint:forbidigo // The clock jumps.
		require.Len(t, only, 1)

		err := getNode(t, second)
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it has the error code of a server that does not respond")
		require.ErrorContains(t, err, ErrorPrefix+"it responds too slowly")

		require.ErrorIs(t, <-ended, errTotalTimeout, "a reconciliation with a place has the whole time")
		require.Empty(t, only, "the place is free again")
		require.NoError(t, getNode(t, second), "another reconciliation takes it")
		require.Empty(t, only)
	})
}
