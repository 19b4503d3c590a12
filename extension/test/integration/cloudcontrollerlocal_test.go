// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// requireCloudControllerLocal sends traffic of the policy Local only to machines with endpoints, and leaves no
// endpoints of the provider cluster's own controllers behind.
func requireCloudControllerLocal(t *testing.T) {
	t.Helper()

	const cluster = "local"

	namespace := providerNamespace(t, "ccm-local")
	first := newMachine(t, namespace, "ccm-local-1", cluster)
	second := newMachine(t, namespace, "ccm-local-2", cluster)

	startCloudController(t, seed.CloudController{ClusterName: cluster, Namespace: namespace})

	b := newBalanced(t, theSeed.Client, namespace, nil)
	both := []string{first, second}
	slices.Sort(both)
	b.awaitEndpoints(t, both...) // by the provider cluster's controllers

	newEndpoints(t, b, "ccm-local-1")
	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	b.awaitEndpoints(t, first)
	newEndpoints(t, b, "ccm-local-2")
	b.awaitEndpoints(t, second)
	newEndpoints(t, b)
	b.awaitEndpoints(t)
	newEndpoints(t, b, "ccm-local-1", "ccm-local-2")
	b.awaitEndpoints(t, both...)

	require.NoError(t, theSeed.Provider.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: launcherPod(t, namespace, "ccm-local-2")}}))
	eventually(t, func(ctx context.Context) (bool, string) { // The machine starts again, in another pod.
		found, err := b.endpoints(ctx)

		return err == nil && len(found) == 2 && !slices.Contains(found, second), fmt.Sprint(found, err)
	})

	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	b.awaits(t, "selects machines again", func(s *corev1.Service) bool {
		found, err := b.endpoints(t.Context())
		require.NoError(t, err)
		require.Len(t, found, 2, "traffic must not stop")

		return len(s.Spec.Selector) == 2 && s.Annotations["kubevirt.provider.extensions.gardener.cloud/endpoints"] == ""
	})
	eventually(t, func(ctx context.Context) (bool, string) {
		all := &discoveryv1.EndpointSliceList{}
		err := theSeed.Provider.List(ctx, all, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelManagedBy: "kubevirt-cloud-controller-manager"})

		return err == nil && len(all.Items) == 0, fmt.Sprint(all.Items, err)
	})
	b.delete(t)
}

// launcherPod returns the name of the pod of a machine.
func launcherPod(t *testing.T, namespace, machine string) string {
	t.Helper()

	pods := &corev1.PodList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), pods, client.InNamespace(namespace), client.MatchingLabels{"vm.kubevirt.io/name": machine}))
	require.NotEmpty(t, pods.Items)

	return pods.Items[0].Name
}

// requireCloudControllerNodes initializes a Node, marks it when its machine is shut down, and removes it when its
// machine is gone.
func requireCloudControllerNodes(t *testing.T) {
	t.Helper()

	const cluster, name = "nodes", "ccm-nodes-1"

	namespace := providerNamespace(t, "ccm-nodes")
	address := newMachine(t, namespace, name, cluster)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}
	require.NoError(t, theSeed.Client.Create(t.Context(), node))
	startCloudController(t, seed.CloudController{ClusterName: cluster, Namespace: namespace})

	nodeHas := func(description string, holds func(*corev1.Node) bool) {
		eventually(t, func(ctx context.Context) (bool, string) {
			err := theSeed.Client.Get(ctx, client.ObjectKeyFromObject(node), node)

			return err == nil && holds(node), fmt.Sprint(description, err, node.Spec, node.Status.Addresses)
		})
	}
	hasTaint := func(key string) func(*corev1.Node) bool {
		return func(n *corev1.Node) bool {
			return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		}
	}

	nodeHas("initialized", func(n *corev1.Node) bool {
		return n.Spec.ProviderID == "kubevirt://"+name && !hasTaint("node.cloudprovider.kubernetes.io/uninitialized")(n) &&
			slices.Contains(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	})

	vm := &kubevirtv1.VirtualMachine{}
	eventually(t, func(ctx context.Context) (bool, string) {
		if err := theSeed.Provider.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, vm); err != nil {
			return false, err.Error()
		}

		vm.Spec.RunStrategy = ptr.To(kubevirtv1.RunStrategyHalted)
		err := theSeed.Provider.Update(ctx, vm)

		return err == nil, fmt.Sprint(err)
	})
	nodeHas("shut down", hasTaint("node.cloudprovider.kubernetes.io/shutdown"))

	require.NoError(t, theSeed.Provider.Delete(t.Context(), vm))
	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Client.Get(ctx, client.ObjectKeyFromObject(node), node)

		return apierrors.IsNotFound(err), fmt.Sprint("the Node remains ", err)
	})
}

// requireCloudControllerNamespace has two clusters in one namespace, and takes over a load balancer of upstream's.
func requireCloudControllerNamespace(t *testing.T) {
	t.Helper()

	namespace := providerNamespace(t, "ccm-shared")
	owned := newBalanced(t, theSeed.Client, namespace, nil)
	foreign := newBalanced(t, theSeed.Client, namespace, nil)

	for b, cluster := range map[*balanced]string{owned: "shared", foreign: "another"} {
		name := "a" + strings.ReplaceAll(string(b.service.UID), "-", "")
		require.NoError(t, theSeed.Provider.Create(t.Context(), &corev1.Service{ // as KubeVirt's own v0.6.0 creates it
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name[:32],
				Labels: map[string]string{
					"cluster.x-k8s.io/tenant-service-name": b.service.Name, "cluster.x-k8s.io/tenant-service-namespace": b.service.Namespace, "cluster.x-k8s.io/cluster-name": cluster,
				},
				Annotations: map[string]string{"example.com/a": "a"},
			},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(b.service.Spec.Ports[0].NodePort)}},
				Selector: map[string]string{"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": cluster},
			},
		}))

		balancer, err := b.balancer(t.Context())
		require.NoError(t, err)

		before := client.MergeFrom(balancer.DeepCopy())
		balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}
		require.NoError(t, theSeed.Provider.Status().Patch(t.Context(), balancer, before))
	}

	before, err := owned.balancer(t.Context())
	require.NoError(t, err)
	untouched, err := foreign.balancer(t.Context())
	require.NoError(t, err)

	startCloudController(t, seed.CloudController{ClusterName: "shared", Namespace: namespace})

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Client.Get(ctx, client.ObjectKeyFromObject(owned.service), owned.service)

		return err == nil && len(owned.service.Status.LoadBalancer.Ingress) == 1, fmt.Sprint("no address", err)
	})

	adopted, err := owned.balancer(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Spec, adopted.Spec)
	require.Equal(t, before.ResourceVersion, adopted.ResourceVersion, "the take-over writes nothing")

	owned.update(t, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
	owned.awaits(t, "changed", func(s *corev1.Service) bool {
		return len(s.Spec.LoadBalancerSourceRanges) == 1 && s.Annotations["example.com/a"] == "a"
	})
	owned.delete(t)

	eventually(t, func(ctx context.Context) (bool, string) {
		events := &corev1.EventList{}
		err := theSeed.Client.List(ctx, events, client.InNamespace(foreign.service.Namespace))

		return err == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == foreign.service.UID && strings.Contains(e.Message, "belongs to another cluster")
		}), "no Event"
	})
	require.NoError(t, theSeed.Client.Delete(t.Context(), foreign.service))
	eventually(t, func(ctx context.Context) (bool, string) {
		return apierrors.IsNotFound(theSeed.Client.Get(ctx, client.ObjectKeyFromObject(foreign.service), &corev1.Service{})), "the Service remains"
	})

	remaining, err := foreign.balancer(t.Context())
	require.NoError(t, err)
	require.Equal(t, untouched.ResourceVersion, remaining.ResourceVersion)
}
