// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// requireLoadBalancer creates a Service of type LoadBalancer in the shoot. Its load balancer in the provider cluster
// selects the machines of the shoot, or those with endpoints of the Service, and is deleted with it.
func requireLoadBalancer(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	b := newBalanced(t, theSeed.Target, shoot.ProviderNamespace, nil)

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKeyFromObject(b.service), b.service)

		return err == nil && len(b.service.Status.LoadBalancer.Ingress) == 1, "no address"
	})

	balancer := b.awaits(t, "labels of the shoot", func(s *corev1.Service) bool {
		return s.Labels["kubevirt.provider.extensions.gardener.cloud/cluster"] == shoot.Namespace
	})
	require.Equal(t, b.service.Spec.Ports[0].NodePort, balancer.Spec.Ports[0].TargetPort.IntVal)

	machines := &kubevirtv1.VirtualMachineInstanceList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), machines, client.InNamespace(shoot.ProviderNamespace),
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(balancer.Spec.Selector)}))
	require.Len(t, machines.Items, 1, "machines that the load balancer selects")

	machine := machines.Items[0].Name
	address := podAddress(t, shoot.ProviderNamespace, machine)

	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	b.awaitEndpoints(t)
	newEndpoints(t, b, machine)
	b.awaitEndpoints(t, address)
	b.update(t, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
	b.awaits(t, "selects machines again", func(s *corev1.Service) bool {
		return len(s.Spec.Selector) == 2 && s.Annotations["kubevirt.provider.extensions.gardener.cloud/endpoints"] == ""
	})
	b.delete(t)
}

// podAddress returns the address of the pod of a machine.
func podAddress(t *testing.T, namespace, machine string) string {
	t.Helper()

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: launcherPod(t, namespace, machine)}}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))

	return pod.Status.PodIP
}

// requireInitialized requires that cloud-controller-manager initializes the Node of the only machine.
func requireInitialized(t *testing.T, shoot *seed.Botanist) {
	t.Helper()
	requireReadyNodes(t, shoot, 1)

	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

	name := onlyMachine(t, shoot).Name
	node := &corev1.Node{}

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := theSeed.Target.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, err.Error()
		}

		delete(node.Labels, corev1.LabelTopologyZone)
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		err := theSeed.Target.Update(ctx, node)

		return err == nil, fmt.Sprint(err)
	})
	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKey{Name: name}, node)
		tainted := false

		for _, taint := range node.Spec.Taints {
			tainted = tainted || taint.Key == uninitialized
		}

		return err == nil && !tainted && node.Labels[corev1.LabelTopologyZone] == "europe-west1-b", fmt.Sprint(err, node.Spec, node.Labels)
	})
	require.Equal(t, "kubevirt://"+name, node.Spec.ProviderID)
}
