// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	patience = 20 * time.Second
	interval = 20 * time.Millisecond
)

// slice are the endpoints of web on Nodes.
func slice(nodes ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}},
	}
	for _, node := range nodes {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.2.0.1"}, NodeName: ptr.To(node)})
	}

	return s
}

func addressIn(t *testing.T, shoot kubernetes.Interface) string {
	t.Helper()

	service, err := shoot.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)

	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}

	return service.Status.LoadBalancer.Ingress[0].IP
}

// TestRefresher_Address reports an address whenever the provider cluster assigns, changes or withdraws it.
func TestRefresher_Address(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.apply(web())

	_, shoot := w.running(web())

	for _, address := range []string{"192.0.2.1", "192.0.2.2", ""} {
		if address == "" {
			w.assign()
		} else {
			w.assign(corev1.LoadBalancerIngress{IP: address})
		}

		require.Eventually(t, func() bool { return addressIn(t, shoot) == address }, patience, interval, address)
	}
}

// TestRefresher_Repairs makes a load balancer what its Service wants after other programs have changed or deleted it.
func TestRefresher_Repairs(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	restricted := web()
	restricted.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	w.apply(restricted)
	w.running(restricted)

	changed := w.balancer()
	changed.Spec.LoadBalancerSourceRanges = nil
	require.NoError(t, w.client.Update(t.Context(), changed))
	require.Eventually(t, func() bool { return len(w.balancer().Spec.LoadBalancerSourceRanges) == 1 }, patience, interval)

	require.NoError(t, w.backdoor.Delete(t.Context(), w.balancer()))
	require.Eventually(t, func() bool {
		balancer, err := w.get(t.Context(), restricted)

		return err == nil && balancer != nil
	}, patience, interval)
}

// TestRefresher_Pending reports a missing address after a minute, not as a failure, and reads the load balancer in case
// that no watch reports it.
func TestRefresher_Pending(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		r, _ := w.running(web())

		_, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
		require.NoError(t, err)

		time.Sleep(pendingInterval / 2) //nolint:forbidigo // The clock jumps.
		require.NoError(t, r.refresh(t.Context(), "default/web"))
		require.Empty(t, w.events.Events)
		time.Sleep(2 * pendingInterval) //nolint:forbidigo // The clock jumps.
		require.Contains(t, <-w.events.Events, "Warning LoadBalancerPending The provider cluster has not assigned an address yet")

		w.sent()
		time.Sleep(time.Hour) //nolint:forbidigo // The clock jumps.
		require.Equal(t, slices.Repeat([]string{"get v1.Service"}, 60), w.sent())
	})
}

// TestRefresher_OlderAddress corrects an address that the service controller has written after a later one.
func TestRefresher_OlderAddress(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.apply(web())
	_, shoot := w.running(web())

	w.assign(corev1.LoadBalancerIngress{IP: "192.0.2.2"})
	require.Eventually(t, func() bool { return addressIn(t, shoot) == "192.0.2.2" }, patience, interval)

	older := web()
	older.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	_, err := shoot.CoreV1().Services("default").UpdateStatus(t.Context(), older, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return addressIn(t, shoot) == "192.0.2.2" }, patience, interval)
}

// TestRefresher_Deleted creates no load balancer for a Service that is deleted while the refresh waits for the lock.
func TestRefresher_Deleted(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	r, shoot := w.running(web())
	require.True(t, r.awaitSync())

	w.locks.LockKey(name) // the service controller deletes it

	ended := make(chan error)

	go func() { ended <- r.refresh(t.Context(), "default/web") }()

	require.Never(t, func() bool { return len(ended) > 0 }, 10*interval, interval)
	require.NoError(t, shoot.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return r.balanced("default/web") == nil }, patience, interval)
	require.NoError(t, w.locks.UnlockKey(name))
	require.NoError(t, <-ended)
	require.NotContains(t, w.sent(), "create v1.Service")
}

// TestTrim keeps what the controllers read.
func TestTrim(t *testing.T) {
	t.Parallel()

	n := node("kubevirt://m")
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"a"}}}
	trimmed, err := trim(n)
	require.NoError(t, err)
	require.Equal(t, node("kubevirt://m"), trimmed)

	s := slice("m1", "m1", "m2")
	s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: ptr.To("m2"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true)}}, discoveryv1.Endpoint{})
	trimmed, err = trim(s)
	require.NoError(t, err)

	again, err := trim(s.DeepCopy())
	require.NoError(t, err)
	require.Equal(t, trimmed, again)

	kept := func(node string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: ptr.To(true)}}
	}
	require.Equal(t, []discoveryv1.Endpoint{kept("m1", true), kept("m2", true), kept("m2", false)}, s.Endpoints)
	require.Equal(t, "web", s.Labels[discoveryv1.LabelServiceName])
}

// TestRefresher_Service applies changes that the service controller ignores.
func TestRefresher_Service(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.apply(web())
	r, shoot := w.running(web())
	require.True(t, r.awaitSync())

	changed := web()
	changed.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	_, err := shoot.CoreV1().Services("default").Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !*w.balancer().Spec.AllocateLoadBalancerNodePorts }, patience, interval)
}

// TestRefresher_Local follows the endpoints of a Service and the pods of the machines.
func TestRefresher_Local(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil, pod("m1", "10.1.0.1"), pod("m2", "10.1.0.2"))
	named := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Spec: corev1.NodeSpec{ProviderID: "kubevirt://m1"}}
	r, shoot := w.running(local(), named, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m2"}}, slice("node1"))
	require.True(t, r.awaitSync())
	w.apply(local())

	addresses := func() (all []string) {
		for _, endpoint := range w.slices()[name+"-ipv4"].Endpoints {
			all = append(all, endpoint.Addresses...)
		}

		return all
	}
	require.Equal(t, []string{"10.1.0.1"}, addresses())

	_, err := shoot.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice("m2", "node1"), metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(addresses()) == 2 }, patience, interval)

	migrated := pod("m2", "10.1.0.9")
	migrated.Name = "virt-launcher-m2-y"
	migrated.UID = "y"

	require.NoError(t, w.client.Create(t.Context(), migrated))
	require.NoError(t, w.client.Delete(t.Context(), pod("m2")))
	require.Eventually(t, func() bool { a := addresses(); return len(a) == 2 && a[1] == "10.1.0.9" }, patience, interval)

	require.NoError(t, shoot.DiscoveryV1().EndpointSlices("default").Delete(t.Context(), "web-x", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return len(addresses()) == 0 }, patience, interval)
}

// TestRefresher_Restart does not remove endpoints that it has not read yet.
func TestRefresher_Restart(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil, pod("m1", "10.1.0.1"))
	r, _ := w.running(local())
	r.synced = append(r.synced, func() bool { return false })

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	_, err := w.EnsureLoadBalancer(ctx, "", local(), nil)
	require.ErrorContains(t, err, "have not been read yet")
	require.Empty(t, w.slices())
}

// TestRefresher_NotBalanced leaves Services alone that the service controller deletes, or has not begun with.
func TestRefresher_NotBalanced(t *testing.T) {
	t.Parallel()

	for reason, change := range map[string]func(*corev1.Service){
		"no finalizer":  func(s *corev1.Service) { s.Finalizers = nil },
		"deleted":       func(s *corev1.Service) { s.DeletionTimestamp = ptr.To(metav1.Now()) },
		"another type":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		"another class": func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") },
	} {
		service := web()
		change(service)

		w := newWorld(t, nil)
		r, _ := w.running(service)
		require.True(t, r.awaitSync())
		require.NoError(t, r.refresh(t.Context(), "default/web"), reason)
		require.NotContains(t, w.sent(), "get v1.Service", reason)
	}
}

// TestRefresher_Failed reports an error, and tries again.
func TestRefresher_Failed(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	r, _ := w.running(web())
	require.True(t, r.awaitSync())

	w.fails = func(string) error { return errors.New("x") }
	require.ErrorContains(t, r.refresh(t.Context(), "default/web"), "provider cluster: ")
	require.Contains(t, <-w.events.Events, "Warning SyncLoadBalancerFailed")
	require.NoError(t, r.refresh(t.Context(), "default/gone"))
}
