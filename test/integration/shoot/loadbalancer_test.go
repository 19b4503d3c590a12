// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestCloudControllerManager runs the extension's cloud-controller-manager with the driver alone: it initializes a Node, and
// gives a Service a load balancer before the machines.
func TestCloudControllerManager(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyExample(t)

	machines := s.AwaitRunning(t, 3)
	s.RunCloudController(t)

	for name := range machines {
		requireInitialized(t, s, name)
	}

	requireBalanced(t, s)
	s.Scale(t, "example-worker-z1", 0)
	s.Scale(t, "example-worker-z2", 0)
	s.AwaitEnd(t)
}

// requireInitialized requires that the taint of a new Node is removed.
func requireInitialized(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	const key = "node.cloudprovider.kubernetes.io/uninitialized"

	isTainted := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	}

	harness.Eventually(t, "the Node "+name+" has the taint", func(ctx context.Context) (bool, error) {
		node, err := s.Target.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule})
		_, err = s.Target.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})

		return err == nil, nil
	})
	harness.Eventually(t, "the Node "+name+" is initialized", func(ctx context.Context) (bool, error) {
		node, err := s.Target.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})

		return err == nil && !isTainted(node) && node.Spec.ProviderID == "kubevirt://"+name && node.Labels[corev1.LabelTopologyRegion] == "local", err
	})
}

// requireBalanced requires a load balancer for a Service, which reports its address, and is deleted with it.
func requireBalanced(t *testing.T, s *harness.Shoot) {
	t.Helper()

	services := s.Target.CoreV1().Services(s.Namespace)
	service, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	name := ("a" + strings.ReplaceAll(string(service.UID), "-", ""))[:32]
	balancers := s.Kube.CoreV1().Services(s.ProviderNamespace)

	harness.Eventually(t, "the load balancer has an address", func(ctx context.Context) (bool, error) {
		balancer, err := balancers.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}

		balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		_, err = balancers.UpdateStatus(ctx, balancer, metav1.UpdateOptions{})

		return err == nil, nil
	})
	harness.Eventually(t, "the Service has the address", func(ctx context.Context) (bool, error) {
		service, err := services.Get(ctx, "web", metav1.GetOptions{})

		return err == nil && len(service.Status.LoadBalancer.Ingress) == 1, err
	})
	require.NoError(t, services.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	harness.Eventually(t, "the load balancer is gone", func(ctx context.Context) (bool, error) {
		_, err := balancers.Get(ctx, name, metav1.GetOptions{})
		_, failed := services.Get(ctx, "web", metav1.GetOptions{})

		return apierrors.IsNotFound(err) && apierrors.IsNotFound(failed), nil
	})
}
