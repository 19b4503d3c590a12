// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// serviceFields are the fields of a Service: what the provider cluster has after a Service was created without the
// change, and then changed, and after the change was taken back; and the same for a Service created with it. The names
// begin with those of the rows in docs/usage/usage-as-end-user.md.
var serviceFields = map[string]struct {
	change, back func(*corev1.Service)
	has          func(*corev1.Service) bool
}{
	"`ports`: port": {
		func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, func(s *corev1.Service) { s.Spec.Ports[0].Port = 80 },
		func(b *corev1.Service) bool { return b.Spec.Ports[0].Port == 81 },
	},
	"`ports`: node port": {
		func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31999 }, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31998 },
		func(b *corev1.Service) bool { return b.Spec.Ports[0].TargetPort == intstr.FromInt32(31999) },
	},
	"`ports`: second protocol": {
		func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports[:1], corev1.ServicePort{Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP})
		},
		func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] },
		func(b *corev1.Service) bool { return len(b.Spec.Ports) == 2 && b.Spec.Ports[1].TargetPort.IntVal > 0 },
	},
	"`ports`: protocol of the application": {
		func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c") }, func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = nil },
		func(b *corev1.Service) bool { return b.Spec.Ports[0].AppProtocol != nil },
	},
	"annotations: allowed one": {
		func(s *corev1.Service) { s.Annotations = map[string]string{"metallb.io/address-pool": "a"} }, func(s *corev1.Service) { s.Annotations = nil },
		func(b *corev1.Service) bool { return b.Annotations["metallb.io/address-pool"] == "a" },
	},
	"`loadBalancerSourceRanges`": {
		func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil },
		func(b *corev1.Service) bool {
			return slices.Equal(b.Spec.LoadBalancerSourceRanges, []string{"192.0.2.0/24"})
		},
	},
	"`sessionAffinity`": {
		func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
		func(s *corev1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		},
		func(b *corev1.Service) bool {
			return b.Spec.SessionAffinity == corev1.ServiceAffinityClientIP && *b.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == 10800
		},
	},
	"`loadBalancerIP`": {
		func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.7" }, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" },
		func(b *corev1.Service) bool { return b.Spec.LoadBalancerIP == "192.0.2.7" },
	},
	"`externalTrafficPolicy: Local`": {
		func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
		func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster },
		func(b *corev1.Service) bool {
			return b.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && len(b.Spec.Selector) == 0 && b.Spec.HealthCheckNodePort > 0
		},
	},
	"`allocateLoadBalancerNodePorts: false`": {
		func(s *corev1.Service) {
			s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
			s.Spec.Ports[0].NodePort = max(s.Spec.Ports[0].NodePort, 31997)
		},
		func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = ptr.To(true) },
		func(b *corev1.Service) bool { return !*b.Spec.AllocateLoadBalancerNodePorts },
	},
}

// requireCloudControllerFields changes each field of a Service: the provider cluster has the change, and loses it
// with the field; it keeps the address. TestDesired_Fields has the fields that are never copied.
func requireCloudControllerFields(t *testing.T) {
	t.Helper()

	namespace := providerNamespace(t, "ccm-fields")
	startCloudController(t, seed.CloudController{ClusterName: "fields", Namespace: namespace, Config: "loadBalancer: {allowedAnnotations: ['metallb.io/*']}\n"})

	page, err := os.ReadFile("../../docs/usage/usage-as-end-user.md")
	require.NoError(t, err)

	for name, tc := range serviceFields {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, string(page), "\n| "+rowOf(name), "a row of the table")

			b := newBalanced(t, theSeed.Client, namespace, nil)
			created := b.awaits(t, "created", func(*corev1.Service) bool { return true })
			require.False(t, tc.has(created))

			b.update(t, tc.change)
			b.awaits(t, "changed", tc.has)
			b.update(t, tc.back)

			removed := b.awaits(t, "removed", func(balancer *corev1.Service) bool { return !tc.has(balancer) })
			require.Equal(t, created.UID, removed.UID)
			b.delete(t)

			with := newBalanced(t, theSeed.Client, namespace, tc.change)
			with.awaits(t, "created with it", tc.has)
			with.delete(t)
		})
	}
}

// rowOf returns the beginning of the row of a case.
func rowOf(name string) string {
	if row, _, detailed := strings.Cut(name, ": "); detailed && !strings.HasSuffix(name, "`") {
		return row
	}

	return name
}

// requireCloudControllerType deletes the load balancer of a Service that is not of the type any more, creates it again,
// and never copies externalIPs.
func requireCloudControllerType(t *testing.T) {
	t.Helper()

	namespace := providerNamespace(t, "ccm-type")
	startCloudController(t, seed.CloudController{ClusterName: "type", Namespace: namespace})

	b := newBalanced(t, theSeed.Client, namespace, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.77"} })
	created := b.awaits(t, "created", func(*corev1.Service) bool { return true })
	require.Empty(t, created.Spec.ExternalIPs)

	b.update(t, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	eventually(t, func(ctx context.Context) (bool, string) {
		_, err := b.balancer(ctx)

		return apierrors.IsNotFound(err), fmt.Sprint("the load balancer remains ", err)
	})
	b.update(t, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
	b.awaits(t, "created again", func(s *corev1.Service) bool { return s.UID != created.UID })
	b.delete(t)
}

// requireCloudControllerAddresses reports an address late, changed and withdrawn, with its mode, and repairs what
// other programs change in the provider cluster.
func requireCloudControllerAddresses(t *testing.T) {
	t.Helper()

	namespace := providerNamespace(t, "ccm-addresses")
	startCloudController(t, seed.CloudController{ClusterName: "addresses", Namespace: namespace})

	b := newBalanced(t, theSeed.Client, namespace, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
	b.awaits(t, "created", func(*corev1.Service) bool { return true })

	for _, ingress := range [][]corev1.LoadBalancerIngress{
		{{IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}}, {{IP: "192.0.2.2", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}, {Hostname: "lb.example.com"}}, nil,
	} {
		balancer, err := b.balancer(t.Context())
		require.NoError(t, err)

		before := client.MergeFrom(balancer.DeepCopy())
		balancer.Status.LoadBalancer.Ingress = ingress
		require.NoError(t, theSeed.Provider.Status().Patch(t.Context(), balancer, before))

		eventually(t, func(ctx context.Context) (bool, string) {
			err := theSeed.Client.Get(ctx, client.ObjectKeyFromObject(b.service), b.service)
			same := len(b.service.Status.LoadBalancer.Ingress) == len(ingress)

			for i := range ingress {
				same = same && b.service.Status.LoadBalancer.Ingress[i].IP == ingress[i].IP && b.service.Status.LoadBalancer.Ingress[i].Hostname == ingress[i].Hostname &&
					(ingress[i].IPMode == nil || *b.service.Status.LoadBalancer.Ingress[i].IPMode == *ingress[i].IPMode)
			}

			return err == nil && same, fmt.Sprint(b.service.Status)
		})
	}

	balancer, err := b.balancer(t.Context())
	require.NoError(t, err)

	before := client.MergeFrom(balancer.DeepCopy())
	balancer.Spec.LoadBalancerSourceRanges = nil
	require.NoError(t, theSeed.Provider.Patch(t.Context(), balancer, before))
	b.awaits(t, "repaired", func(s *corev1.Service) bool { return len(s.Spec.LoadBalancerSourceRanges) == 1 })

	require.NoError(t, theSeed.Provider.Delete(t.Context(), balancer))
	b.awaits(t, "created again", func(s *corev1.Service) bool { return s.UID != balancer.UID && s.DeletionTimestamp == nil })
	b.delete(t)
}
