// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contest takes each repair of the load balancer's source ranges back, as a program of the provider cluster could.
func (w *world) contest() {
	w.t.Helper()

	source, err := w.backdoor.Watch(w.t.Context(), &corev1.ServiceList{})
	require.NoError(w.t, err)

	theirs := func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		_ = w.backdoor.Update(w.t.Context(), s)
	}

	go func() {
		defer source.Stop()

		for {
			select {
			case event := <-source.ResultChan():
				if s, ok := event.Object.(*corev1.Service); ok && s.Name == name && len(s.Spec.LoadBalancerSourceRanges) == 0 {
					theirs(s.DeepCopy())
				}
			case <-w.t.Context().Done():
				return
			}
		}
	}()

	theirs(w.balancer())
}

// TestRefresher_Contest contests the changes of another program less and less often, and reports addresses at once, also
// those of the contested load balancer.
func TestRefresher_Contest(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.apply(web())
		_, shoot := w.running(web())
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.
		w.contest()

		writes := func(duration time.Duration) (count int) {
			w.sent()
			time.Sleep(duration) //nolint:forbidigo // The clock jumps.
			synctest.Wait()

			for _, request := range w.sent() {
				if request == "update v1.Service" {
					count++
				}
			}

			return count
		}

		first := writes(time.Minute)
		require.Greater(t, first, 2, "it is repaired")
		require.Less(t, first, 15)
		writes(time.Hour)
		require.LessOrEqual(t, writes(time.Hour), 13)

		w.assign(corev1.LoadBalancerIngress{IP: "192.0.2.1"})
		time.Sleep(2 * time.Second) //nolint:forbidigo // The clock jumps.
		require.Equal(t, "192.0.2.1", addressIn(t, shoot))
	})
}

// TestRefresher_MissedDeletion creates a load balancer again that was deleted while no watch ran.
func TestRefresher_MissedDeletion(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.apply(web())

		expired := watch.NewFake()
		w.expires = expired
		w.running(web())
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.

		require.NoError(t, w.backdoor.Delete(t.Context(), w.balancer()))
		expired.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
		time.Sleep(time.Minute) //nolint:forbidigo // The clock jumps.
		synctest.Wait()

		w.balancer()
	})
}

// TestRefresher_Moved refreshes only Services with endpoints on a machine that has moved.
func TestRefresher_Moved(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, pod("m1", "10.1.0.1"), pod("m2", "10.1.0.2"))
		objects := []client.Object{slice("m1")}

		for i := range 50 { // Their endpoints are on no machine.
			other := local()
			other.Name = fmt.Sprint("other", i)
			other.UID = types.UID(fmt.Sprintf("%08d-4e5f-6071-8293-a4b5c6d7e8f9", i))
			objects = append(objects, other)
		}

		w.running(append(objects, local())...)
		synctest.Wait()

		for _, object := range append(objects[1:], local()) {
			_, err := w.EnsureLoadBalancer(t.Context(), "", object.(*corev1.Service), nil) //nolint:forcetypeassert // They are Services.
			require.NoError(t, err)
		}

		time.Sleep(time.Minute / 2) //nolint:forbidigo // The clock jumps.
		w.sent()

		described := pod("m1", "10.1.0.1")
		described.Annotations = map[string]string{"a": "a"}
		require.NoError(t, w.backdoor.Update(t.Context(), described))
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.
		require.Empty(t, w.sent(), "nothing of meaning has changed")

		require.NoError(t, w.backdoor.Status().Update(t.Context(), pod("m2", "10.1.0.9")))
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.
		require.Empty(t, w.sent(), "no Service has endpoints on it")

		require.NoError(t, w.backdoor.Status().Update(t.Context(), pod("m1", "10.1.0.8")))
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.
		require.Equal(t, []string{"get v1.Service", "list v1.EndpointSliceList", "update v1.EndpointSlice"}, w.sent())
		require.Equal(t, "10.1.0.8", w.slices()[name+"-ipv4"].Endpoints[0].Addresses[0])
	})
}

// TestFollowed_Idle sends no request for load balancers that do not change.
func TestFollowed_Idle(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, pod("m1", "10.1.0.1"))
		service := local()
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		w.running(service, slice("m1"))
		time.Sleep(time.Second) //nolint:forbidigo // The clock jumps.
		w.apply(service)
		w.assign(service.Status.LoadBalancer.Ingress...)
		time.Sleep(2 * pendingInterval) //nolint:forbidigo // The clock jumps.

		w.sent()
		time.Sleep(time.Hour) //nolint:forbidigo // The clock jumps.
		require.Empty(t, w.sent())
	})
}
