// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var services = schema.GroupResource{Resource: "services"}

// TestLoadBalancers_Requests counts the requests of each step: none writes without a change.
func TestLoadBalancers_Requests(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)

	status, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.NoError(t, err, "it must not be reported as failed")
	require.Empty(t, status.Ingress)
	require.Equal(t, []string{"get v1.Service", "create v1.Service"}, w.sent())
	require.Equal(t, pendingInterval, w.repeated)

	_, err = w.EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"get v1.Service"}, w.sent())

	ingress := corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}
	w.assign(ingress)

	status, err = w.EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.NoError(t, err)
	require.Equal(t, []corev1.LoadBalancerIngress{ingress}, status.Ingress)
	require.Equal(t, []string{"get v1.Service"}, w.sent())

	changed := web()
	changed.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	require.NoError(t, w.UpdateLoadBalancer(t.Context(), "", changed, nil))
	require.Empty(t, w.sent(), "Nodes do not change a load balancer")

	_, err = w.EnsureLoadBalancer(t.Context(), "", changed, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"get v1.Service", "update v1.Service"}, w.sent())

	_, exists, err := w.GetLoadBalancer(t.Context(), "", changed)
	require.NoError(t, err)
	require.True(t, exists)
	w.sent()

	require.NoError(t, w.EnsureLoadBalancerDeleted(t.Context(), "", changed))
	require.Equal(t, []string{"get v1.Service", "delete v1.Service"}, w.sent())
	require.NoError(t, w.EnsureLoadBalancerDeleted(t.Context(), "", changed))

	_, exists, err = w.GetLoadBalancer(t.Context(), "", changed)
	require.NoError(t, err)
	require.False(t, exists)
}

// upstreams is a load balancer as KubeVirt's own cloud-controller-manager v0.6.0 creates it.
func upstreams() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{
				labelServiceName: "web", labelServiceNamespace: "default", labelCluster: clusterName, "owner": "a",
			},
			Annotations: map[string]string{"metallb.universe.tf/address-pool": "a"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.9.0.1", Selector: map[string]string{labelRole: roleWorker, labelCluster: clusterName},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster, SessionAffinity: corev1.ServiceAffinityNone,
			AllocateLoadBalancerNodePorts: ptr.To(true), IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 32000}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
}

// TestLoadBalancers_Adopt takes over a load balancer of upstream's without a write, or repairs what upstream did not
// change, and keeps its annotations, its address and its node ports.
func TestLoadBalancers_Adopt(t *testing.T) {
	t.Parallel()

	same := upstreams()
	same.Spec.Ports[0].TargetPort.IntVal = 30080

	w := newWorld(t, nil, same)
	status, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.NoError(t, err)
	require.Equal(t, "192.0.2.1", status.Ingress[0].IP)
	require.Equal(t, []string{"get v1.Service"}, w.sent())

	stale := upstreams()
	delete(stale.Labels, "owner") // from before the label
	stale.Spec.ExternalIPs = []string{"10.0.0.7"}

	w = newWorld(t, nil, stale)
	adopted := w.apply(web())
	require.Equal(t, "a", adopted.Labels["owner"])
	require.Equal(t, stale.Annotations, adopted.Annotations)
	require.Equal(t, int32(30080), adopted.Spec.Ports[0].TargetPort.IntVal)
	require.Equal(t, int32(32000), adopted.Spec.Ports[0].NodePort)
	require.Empty(t, adopted.Spec.ExternalIPs)
	require.Equal(t, "192.0.2.1", adopted.Status.LoadBalancer.Ingress[0].IP)
}

// TestLoadBalancers_OfOthers neither changes nor deletes the load balancers of other clusters.
func TestLoadBalancers_OfOthers(t *testing.T) {
	t.Parallel()

	for key, value := range map[string]string{labelCluster: "shoot--dev--b", "owner": "b"} {
		foreign := upstreams()
		foreign.Labels[key] = value

		w := newWorld(t, nil, foreign)
		before := w.balancer()

		_, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
		require.ErrorContains(t, err, "belongs to another cluster")

		_, exists, err := w.GetLoadBalancer(t.Context(), "", web())
		require.NoError(t, err)
		require.False(t, exists, "it must not hold up the deletion of a Service")
		require.NoError(t, w.EnsureLoadBalancerDeleted(t.Context(), "", web()))
		require.Equal(t, before, w.balancer())
	}
}

// TestLoadBalancers_Conflict repeats a write after another program's.
func TestLoadBalancers_Conflict(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil, upstreams())
	conflicts := 2
	w.fails = func(request string) error {
		if conflicts == 0 || request != "update v1.Service" {
			return nil
		}

		conflicts--

		return apierrors.NewConflict(services, name, errors.New("changed"))
	}
	require.Equal(t, int32(30080), w.apply(web()).Spec.Ports[0].TargetPort.IntVal)

	w.fails = func(string) error { return apierrors.NewConflict(services, name, errors.New("changed")) }
	_, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.True(t, apierrors.IsConflict(err), err)
}

// TestLoadBalancers_Errors names the remedies that a user of the shoot needs.
func TestLoadBalancers_Errors(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"quota":      {apierrors.NewForbidden(services, name, errors.New("exceeded quota: machines, requested: services.loadbalancers=1")), "for a larger quota"},
		"permission": {apierrors.NewForbidden(services, name, errors.New(`User "a" cannot create`)), "grant the kubeconfig's user the permissions"},
		"webhook":    {apierrors.NewBadRequest(`admission webhook "x" denied the request: metallb.io/address-pool: no pool b`), "no pool b"},
		"no answer":  {errors.New("connection refused"), "provider cluster: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w := newWorld(t, nil)
			w.fails = func(request string) error {
				if request == "create v1.Service" {
					return tc.err
				}

				return nil
			}

			_, err := w.EnsureLoadBalancer(t.Context(), "", web(), nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// TestLoadBalancers_Deleting waits until an earlier load balancer of the Service is gone.
func TestLoadBalancers_Deleting(t *testing.T) {
	t.Parallel()

	deleting := upstreams()
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now()))
	deleting.Finalizers = []string{"example.com/lb"}

	_, err := newWorld(t, nil, deleting).EnsureLoadBalancer(t.Context(), "", web(), nil)
	require.ErrorContains(t, err, "is being deleted")
}

// TestLoadBalancers_Note reports what a load balancer does not get.
func TestLoadBalancers_Note(t *testing.T) {
	t.Parallel()

	w := newWorld(t, &Config{LoadBalancer: LoadBalancerConfig{AllowedAnnotations: []string{"metallb.io/*"}}})
	service := web()
	service.Annotations = map[string]string{
		"metallb.io/a": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}", "dns.gardener.cloud/dnsnames": "a", "example.com/internal": "true",
	}
	service.Spec.ExternalIPs = []string{"10.0.0.1"}

	w.apply(service)
	require.Equal(t, "Warning NotInLoadBalancer The load balancer does not get the annotations example.com/internal; ask the operator to allow those that it needs "+
		"(loadBalancer.allowedAnnotations)", <-w.events.Events)
	require.Equal(t, "Warning NotInLoadBalancer The load balancer does not get externalIPs; use the address in the status", <-w.events.Events)

	w.apply(web())
	require.Empty(t, w.events.Events)
}

// TestLoadBalancers_Killed ends the process at each request, and starts another one: the load balancer is what the
// Service wants, once, and nothing is left of it in the end.
func TestLoadBalancers_Killed(t *testing.T) {
	t.Parallel()

	for _, answered := range []bool{false, true} {
		at := 1
		for killLoadBalancers(t, at, answered) {
			at++
		}

		require.Greater(t, at, 12, "requests")
	}
}

// killLoadBalancers ends the process before or after it sends the request with a number. It reports whether there is
// such a request.
func killLoadBalancers(t *testing.T, at int, answered bool) (died bool) {
	t.Helper()

	w := newWorld(t, nil, pod("m1", "10.1.0.1"))
	start := func() {
		w.start(&Config{InfraLabels: map[string]string{"owner": "a"}})
		w.serving = func(*corev1.Service) (machines, error) { return machines{"m1": true}, nil }
	}

	if answered {
		at++ // The process ends before the next request.
	}

	requests := 0
	w.fails = func(string) error {
		if requests++; requests == at {
			died = true

			return errors.New("killed")
		}

		return nil
	}

	start()

	for _, service := range []*corev1.Service{web(), local(), web(), nil} {
		if err := w.step(service); err != nil {
			start()
			require.NoError(t, w.step(service), "killed at request %d", at)
		}
	}

	w.fails = func(string) error { return nil }
	all := &corev1.ServiceList{}
	require.NoError(t, w.client.List(t.Context(), all, client.InNamespace(namespace)))
	require.Empty(t, all.Items, "killed at request %d", at)
	require.Equal(t, []string{name + "-x"}, slices.Collect(maps.Keys(w.slices())), "killed at request %d", at)

	return died
}

// step provides the load balancer of a Service, or deletes it. When it selects machines, the provider cluster's own
// controller writes endpoints, and the refresher repeats the step.
func (w *world) step(service *corev1.Service) error {
	if service == nil {
		return w.EnsureLoadBalancerDeleted(w.t.Context(), "", web())
	}

	_, err := w.EnsureLoadBalancer(w.t.Context(), "", service, nil)
	if err != nil || isLocal(service) {
		return err
	}

	require.NoError(w.t, client.IgnoreAlreadyExists(w.backdoor.Create(w.t.Context(), theirs(name+"-x", "endpointslice-controller.k8s.io", "10.1.0.1"))))

	_, err = w.EnsureLoadBalancer(w.t.Context(), "", service, nil)

	return err
}
