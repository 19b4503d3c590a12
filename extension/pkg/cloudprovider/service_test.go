// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestDesired_Fields changes each field of a Service, and takes the change back. What the provider cluster has set
// remains. The table in docs/usage/usage-as-end-user.md has the same fields; the suite of the extension repeats them
// with real API servers.
func TestDesired_Fields(t *testing.T) {
	t.Parallel()

	config := &Config{InfraLabels: map[string]string{"owner": "a"}, LoadBalancer: LoadBalancerConfig{AllowedAnnotations: []string{"metallb.io/*"}}}

	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		// want are the fields of the load balancer that differ from those of web.
		want func(*corev1.Service)
	}{
		"nothing": {func(*corev1.Service) {}, func(*corev1.Service) {}},
		"port": {
			func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
			func(b *corev1.Service) { b.Spec.Ports[0].Port, b.Spec.Ports[0].NodePort = 81, 0 },
		},
		"node port": {
			func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30081 },
			func(b *corev1.Service) { b.Spec.Ports[0].TargetPort = intstr.FromInt32(30081) },
		},
		"name and protocol of the application": {
			func(s *corev1.Service) {
				s.Spec.Ports[0].Name, s.Spec.Ports[0].AppProtocol = "h2", ptr.To("kubernetes.io/h2c")
			},
			func(b *corev1.Service) {
				b.Spec.Ports[0].Name, b.Spec.Ports[0].AppProtocol = "h2", ptr.To("kubernetes.io/h2c")
			},
		},
		"another protocol": {
			func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30080})
			},
			func(b *corev1.Service) {
				b.Spec.Ports = append(b.Spec.Ports, corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(30080)})
			},
		},
		"session affinity": {
			func(s *corev1.Service) {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](7)}}
			},
			func(b *corev1.Service) {
				b.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				b.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](7)}}
			},
		},
		"source ranges": {
			func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} },
			func(b *corev1.Service) { b.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} },
		},
		"source ranges in the annotation": {
			func(s *corev1.Service) {
				s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "192.0.2.0/24, 2001:db8::/32"}
			},
			func(b *corev1.Service) { b.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "2001:db8::/32"} },
		},
		"address": {
			func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.7" },
			func(b *corev1.Service) {
				b.Spec.LoadBalancerIP = "192.0.2.7"
				b.Annotations[annotationAddress] = "192.0.2.7"
			},
		},
		"without node ports of the load balancer": {
			func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false) },
			func(b *corev1.Service) { b.Spec.AllocateLoadBalancerNodePorts = ptr.To(false) },
		},
		"second IP family": {
			func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
			},
			func(b *corev1.Service) { b.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack) },
		},
		"policy": {
			func(s *corev1.Service) { *s = *local() },
			func(b *corev1.Service) {
				b.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				b.Spec.Selector = nil
				b.Annotations[annotationEndpoints] = "true"
			},
		},
		"allowed annotation": {
			func(s *corev1.Service) {
				s.Annotations = map[string]string{"metallb.io/address-pool": "a", "other.io/a": "a"}
			},
			func(b *corev1.Service) {
				b.Annotations["metallb.io/address-pool"] = "a"
				b.Annotations[annotationCopied] = "metallb.io/address-pool"
			},
		},
		"annotation of this program": {
			func(s *corev1.Service) {
				s.Annotations = map[string]string{annotationEndpoints: "a", annotationCopied: "pool"}
			},
			func(*corev1.Service) {},
		},
		"external IPs": {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"10.0.0.1"} }, func(*corev1.Service) {}},
		"selector":     {func(s *corev1.Service) { s.Spec.Selector = map[string]string{labelCluster: "shoot--dev--b"} }, func(*corev1.Service) {}},
		"labels":       {func(s *corev1.Service) { s.Labels = map[string]string{"owner": "b", labelCluster: "b"} }, func(*corev1.Service) {}},
		"internal traffic policy": {func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, func(*corev1.Service) {}},
		"endpoints that are not ready": {
			func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }, func(*corev1.Service) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			b := newWorld(t, config).loadBalancers
			old, err := b.desired(web(), b.newBalancer(web()))
			require.NoError(t, err)

			// The provider cluster completes it.
			old.Annotations = map[string]string{"pool": "default"}
			old.Spec.Ports[0].NodePort = 32000
			old.Spec.ClusterIP = "10.9.0.1"
			old.Spec.HealthCheckNodePort = 32500

			service := web()
			tc.change(service)

			changed, err := b.desired(service, old)
			require.NoError(t, err)

			want := old.DeepCopy()
			tc.want(want)
			require.Equal(t, want, changed)

			// EndpointSlices are removed before the annotation: see removeEndpoints.
			delete(changed.Annotations, annotationEndpoints)

			if len(changed.Spec.Ports) > 0 && changed.Spec.Ports[0].NodePort == 0 {
				changed.Spec.Ports[0].NodePort = 32000 // The provider cluster chooses one again.
				changed.Spec.Ports[0].Port = 80
			}

			back, err := b.desired(web(), changed)
			require.NoError(t, err)
			require.Equal(t, old, back)
		})
	}
}

// TestDesired_Created is a new load balancer.
func TestDesired_Created(t *testing.T) {
	t.Parallel()

	config := &Config{InfraLabels: map[string]string{"owner": "a"}, LoadBalancer: LoadBalancerConfig{Class: "example.com/lb"}}
	b := newWorld(t, config).loadBalancers

	service := web()
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)

	balancer, err := b.desired(service, b.newBalancer(service))
	require.NoError(t, err)
	require.Equal(t, name, balancer.Name)
	require.Equal(t, map[string]string{
		"owner": "a", labelCluster: clusterName, labelServiceName: "web", labelServiceNamespace: "default",
	}, balancer.Labels)
	require.Equal(t, map[string]string{labelRole: roleWorker, labelCluster: clusterName}, balancer.Spec.Selector)
	require.Equal(t, "example.com/lb", *balancer.Spec.LoadBalancerClass)
	require.Equal(t, []corev1.IPFamily{corev1.IPv6Protocol}, balancer.Spec.IPFamilies)
	require.Empty(t, balancer.Annotations)

	b.config.Selectorless = true

	balancer, err = b.desired(local(), b.newBalancer(service))
	require.NoError(t, err)
	require.Empty(t, balancer.Spec.Selector)
	require.Empty(t, balancer.Annotations, "another program provides the endpoints")
}

// TestDesired_Invalid returns errors with a remedy: nothing is opened that the Service restricts.
func TestDesired_Invalid(t *testing.T) {
	t.Parallel()

	b := newWorld(t, nil).loadBalancers

	service := web()
	service.Spec.Ports[0].NodePort = 0
	_, err := b.desired(service, b.newBalancer(service))
	require.ErrorContains(t, err, "set allocateLoadBalancerNodePorts to true")

	service = web()
	service.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "192.0.2.0/24,x"}
	_, err = b.desired(service, b.newBalancer(service))
	require.ErrorContains(t, err, "use spec.loadBalancerSourceRanges")
}

// TestDesired_AddressOfOthers keeps the address that an implementation of load balancers has set.
func TestDesired_AddressOfOthers(t *testing.T) {
	t.Parallel()

	b := newWorld(t, nil).loadBalancers
	actual := upstreams()
	actual.Spec.LoadBalancerIP = "192.0.2.8"

	desired, err := b.desired(web(), actual)
	require.NoError(t, err)
	require.Equal(t, "192.0.2.8", desired.Spec.LoadBalancerIP)

	actual.Annotations[annotationAddress] = "192.0.2.7" // of the Service, before

	desired, err = b.desired(web(), actual)
	require.NoError(t, err)
	require.Equal(t, "192.0.2.8", desired.Spec.LoadBalancerIP)
}

// TestFamilyPolicy has a second IP family only if the machines serve it.
func TestFamilyPolicy(t *testing.T) {
	t.Parallel()

	const (
		one, preferred, required = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
		v4, v6                   = corev1.IPv4Protocol, corev1.IPv6Protocol
	)

	for reason, tc := range map[string]struct {
		policy           corev1.IPFamilyPolicy
		families, actual []corev1.IPFamily
		want             corev1.IPFamilyPolicy
	}{
		"one":                                  {one, []corev1.IPFamily{v4}, nil, one},
		"two":                                  {preferred, []corev1.IPFamily{v4, v6}, nil, preferred},
		"two are required":                     {required, []corev1.IPFamily{v4, v6}, []corev1.IPFamily{v4}, required},
		"preferred, but the cluster has one":   {preferred, []corev1.IPFamily{v4}, nil, one},
		"preferred, the load balancer has one": {preferred, []corev1.IPFamily{v4}, []corev1.IPFamily{v4}, one},
		"adopted with two: addresses remain":   {preferred, []corev1.IPFamily{v4}, []corev1.IPFamily{v4, v6}, preferred},
		"one is enough now":                    {one, []corev1.IPFamily{v4}, []corev1.IPFamily{v4, v6}, one},
	} {
		service := web()
		service.Spec.IPFamilyPolicy = &tc.policy
		service.Spec.IPFamilies = tc.families

		actual := upstreams()
		actual.Spec.IPFamilies = tc.actual
		require.Equal(t, tc.want, *familyPolicy(service, actual), reason)
	}

	service := web()
	service.Spec.IPFamilyPolicy = nil
	require.Equal(t, one, *familyPolicy(service, upstreams()))
}

// TestStatus_Families has no address of a family in which no node port listens.
func TestStatus_Families(t *testing.T) {
	t.Parallel()

	balancer := upstreams()
	balancer.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}, {Hostname: "lb.example.com"}}
	require.Equal(t, []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}, status(web(), balancer).Ingress)

	dual := web()
	dual.Spec.IPFamilies = balancer.Spec.IPFamilies
	require.Len(t, status(dual, balancer).Ingress, 3)
	require.Len(t, balancer.Status.LoadBalancer.Ingress, 3)
}

// TestCheckOwner adopts a load balancer whose labels are gone: its name has the UID of the Service.
func TestCheckOwner(t *testing.T) {
	t.Parallel()

	b := newWorld(t, nil).loadBalancers
	require.NoError(t, b.checkOwner(&corev1.Service{}))
	require.NoError(t, b.checkOwner(upstreams()))
	require.Error(t, b.checkOwner(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelCluster: "b"}}}))
	require.Error(t, b.checkOwner(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"owner": "b"}}}))
}

// TestStatus bounds the addresses that the provider cluster chooses.
func TestStatus(t *testing.T) {
	t.Parallel()

	balancer := &corev1.Service{}
	balancer.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, 100)
	require.Len(t, status(balancer, balancer).Ingress, 32)
}
