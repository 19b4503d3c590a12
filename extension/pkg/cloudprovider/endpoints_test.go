// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestWriteEndpoints_Local sends traffic only to the machines with endpoints, at the addresses that the provider
// cluster gave their pods, and follows changes without needless writes.
func TestWriteEndpoints_Local(t *testing.T) {
	t.Parallel()

	notReady := pod("m4", "10.1.0.4")
	notReady.Status.Conditions[0].Status = corev1.ConditionFalse
	other := pod("m1", "10.1.0.9") // of another cluster
	other.Name = "other"
	other.Labels[labelCluster] = "shoot--dev--b"

	w := newWorld(t, nil, pod("m1", "10.1.0.1", "fd00::1"), pod("m2", "10.1.0.2"), pod("m3", "10.1.0.3"), notReady, other)
	serving := machines{"m1": true, "m3": false, "m4": true}
	w.serving = func(*corev1.Service) (machines, error) { return serving, nil }

	balancer := w.apply(local())
	require.Equal(t, []string{
		"get v1.Service", "create v1.Service", "list v1.PodList", "list v1.EndpointSliceList", "create v1.EndpointSlice",
	}, w.sent()[:5])
	require.Empty(t, balancer.Spec.Selector)
	require.Equal(t, corev1.ServiceExternalTrafficPolicyLocal, balancer.Spec.ExternalTrafficPolicy)
	require.Zero(t, balancer.Spec.HealthCheckNodePort, "the provider cluster chooses it")

	slice := w.slices()[name+"-ipv4"]
	require.Equal(t, name, slice.Labels[discoveryv1.LabelServiceName])
	require.Equal(t, endpointsManager, slice.Labels[discoveryv1.LabelManagedBy])
	require.Equal(t, balancer.UID, slice.OwnerReferences[0].UID)
	require.Equal(t, []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](30080)}}, slice.Ports)
	require.Equal(t, []discoveryv1.Endpoint{
		{
			Addresses: []string{"10.1.0.1"}, NodeName: ptr.To("host-m1"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "virt-launcher-m1", UID: "m1"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		},
		{
			Addresses: []string{"10.1.0.3"}, NodeName: ptr.To("host-m3"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "virt-launcher-m3", UID: "m3"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
		},
	}, slice.Endpoints)

	w.sent()
	w.apply(local())
	require.Equal(t, []string{"get v1.Service", "list v1.PodList", "list v1.EndpointSliceList"}, w.sent()[:3])

	serving = machines{"m2": true}

	w.apply(local())
	require.Equal(t, "10.1.0.2", w.slices()[name+"-ipv4"].Endpoints[0].Addresses[0])

	serving = nil

	w.apply(local())
	require.Empty(t, w.slices()[name+"-ipv4"].Endpoints)
}

// TestWriteEndpoints_Families has a slice for each IP family of the load balancer.
func TestWriteEndpoints_Families(t *testing.T) {
	t.Parallel()

	dual := upstreams()
	dual.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	dual.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)

	w := newWorld(t, nil, dual, pod("m1", "10.1.0.1", "fd00::1"), pod("m2", "10.1.0.2"))
	w.serving = func(*corev1.Service) (machines, error) { return machines{"m1": true, "m2": true}, nil }
	w.apply(local())

	all := w.slices()
	require.Len(t, all[name+"-ipv4"].Endpoints, 2)
	require.Len(t, all[name+"-ipv6"].Endpoints, 1)
	require.Equal(t, "fd00::1", all[name+"-ipv6"].Endpoints[0].Addresses[0])
}

// TestWriteEndpoints_Switch changes the policy of a load balancer in both directions. What the controllers of the
// provider cluster leave behind is deleted.
func TestWriteEndpoints_Switch(t *testing.T) {
	t.Parallel()

	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}} //nolint:staticcheck // of older controllers

	w := newWorld(t, nil, upstreams(), pod("m1", "10.1.0.1"), endpoints, theirs(name+"-x", "endpointslice-controller.k8s.io"), theirs(name+"-y", "endpointslicemirroring-controller.k8s.io"))
	w.serving = func(*corev1.Service) (machines, error) { return machines{"m1": true}, nil }

	w.apply(local())
	require.Equal(t, handover, w.repeated, "a controller may write endpoints that it had begun with")

	all := w.slices()
	require.Len(t, all, 1)
	require.Len(t, all[name+"-ipv4"].Endpoints, 1)
	require.True(t, apierrors.IsNotFound(w.client.Get(t.Context(), client.ObjectKeyFromObject(endpoints), endpoints)))

	// The provider cluster's controller has not selected endpoints yet: those of this program remain.
	balancer := w.apply(web())
	require.NotEmpty(t, balancer.Spec.Selector)
	require.Contains(t, balancer.Annotations, annotationEndpoints)
	require.Len(t, w.slices()[name+"-ipv4"].Endpoints, 1)

	for _, endpoints := range [][]string{nil, {"10.1.0.1"}} {
		written := theirs(name+"-z", "endpointslice-controller.k8s.io", endpoints...)
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), written)))
		require.NoError(t, w.client.Create(t.Context(), written))

		w.repeated = 0
		balancer = w.apply(web())

		if len(endpoints) == 0 {
			require.Contains(t, w.slices(), name+"-ipv4", "none is ready yet")
		}
	}

	require.NotContains(t, balancer.Annotations, annotationEndpoints)
	require.Equal(t, []string{name + "-z"}, slices.Collect(maps.Keys(w.slices())))

	w.sent()
	w.apply(web())
	require.Equal(t, []string{"get v1.Service"}, w.sent()[:1])
}

// TestRemoveEndpoints_Families keeps the endpoints of a family in which the provider cluster has none yet.
func TestRemoveEndpoints_Families(t *testing.T) {
	t.Parallel()

	dual := upstreams()
	dual.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	dual.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)

	service := func(policy corev1.ServiceExternalTrafficPolicy) *corev1.Service {
		s := local()
		s.Spec.ExternalTrafficPolicy = policy
		s.Spec.IPFamilies = dual.Spec.IPFamilies
		s.Spec.IPFamilyPolicy = dual.Spec.IPFamilyPolicy

		return s
	}

	w := newWorld(t, nil, dual, pod("m1", "10.1.0.1", "fd00::1"))
	w.serving = func(*corev1.Service) (machines, error) { return machines{"m1": true}, nil }
	w.apply(service(corev1.ServiceExternalTrafficPolicyLocal))
	require.Len(t, w.slices(), 2)

	require.NoError(t, w.client.Create(t.Context(), theirs(name+"-x", "endpointslice-controller.k8s.io", "10.1.0.1")))
	balancer := w.apply(service(corev1.ServiceExternalTrafficPolicyCluster))
	require.Contains(t, w.slices(), name+"-ipv6")
	require.Contains(t, balancer.Annotations, annotationEndpoints)
	require.Equal(t, handover, w.repeated)

	second := theirs(name+"-y", "endpointslice-controller.k8s.io", "fd00::1")
	second.AddressType = discoveryv1.AddressTypeIPv6
	require.NoError(t, w.client.Create(t.Context(), second))
	require.NotContains(t, w.apply(service(corev1.ServiceExternalTrafficPolicyCluster)).Annotations, annotationEndpoints)
	require.Len(t, w.slices(), 2)
}

// TestApply_KeepsSelector does not take the endpoints from a load balancer that it cannot give others, but applies all
// other changes.
func TestApply_KeepsSelector(t *testing.T) {
	t.Parallel()

	for _, forbidden := range []string{"list v1.PodList", "list v1.EndpointSliceList", "create v1.EndpointSlice"} {
		w := newWorld(t, nil, upstreams())
		w.fails = func(request string) error {
			if request == forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
			}

			return nil
		}

		restricted := local()
		restricted.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}

		_, err := w.EnsureLoadBalancer(t.Context(), "", restricted, nil)
		require.True(t, apierrors.IsForbidden(err), err)

		balancer := w.balancer()
		require.Equal(t, upstreams().Spec.Selector, balancer.Spec.Selector, forbidden)
		require.Equal(t, corev1.ServiceExternalTrafficPolicyCluster, balancer.Spec.ExternalTrafficPolicy, forbidden)
		require.Equal(t, restricted.Spec.LoadBalancerSourceRanges, balancer.Spec.LoadBalancerSourceRanges, forbidden)

		w.fails = func(string) error { return nil }
		require.Empty(t, w.apply(restricted).Spec.Selector, forbidden)
	}
}

// TestSlicesOf_Many splits endpoints, and removes those that are too many later.
func TestSlicesOf_Many(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)

	const most = 2*maxEndpoints + 1

	serving := machines{}
	pods := make([]launcher, 0, most)

	for i := range most {
		machine := fmt.Sprint("m", i)
		serving[machine] = true
		pods = append(pods, launcher{machine: machine, ips: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250)}})
	}

	w.serving = func(*corev1.Service) (machines, error) { return serving, nil }
	w.launchers = func(context.Context) ([]launcher, error) { return pods, nil }

	for _, tc := range []struct{ endpoints, slices int }{{most, 3}, {most - 1, 2}, {1, 1}, {0, 1}} {
		pods = pods[:tc.endpoints]

		w.apply(local())

		found := 0
		for _, slice := range w.slices() {
			require.LessOrEqual(t, len(slice.Endpoints), maxEndpoints)

			found += len(slice.Endpoints)
		}

		require.Equal(t, tc.endpoints, found)
		require.Len(t, w.slices(), tc.slices)
	}
}

// TestLauncherOf ignores pods in which no machine runs.
func TestLauncherOf(t *testing.T) {
	t.Parallel()

	require.Equal(t, launcher{machine: "m", name: "virt-launcher-m", host: "host-m", uid: "m", ips: []string{"10.1.0.1"}}, launcherOf(pod("m", "10.1.0.1")))
	require.Len(t, launcherOf(pod("m", "10.1.0.1", "fd00::1", "fd00::2")).ips, maxAddresses, "a hostile server could send many")

	for reason, change := range map[string]func(*corev1.Pod){
		"a migration's target is not ready": func(p *corev1.Pod) { p.Status.Conditions = nil },
		"it ends":                           func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) },
		"it is no launcher":                 func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"it has no owner":                   func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		p := pod("m", "10.1.0.1")
		change(p)
		require.Empty(t, launcherOf(p).ips, reason)
	}
}
