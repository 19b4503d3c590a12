// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// webName is the name of a Service of type LoadBalancer and of the pod that serves it, and greeting what it answers.
const webName, greeting = "web", "hello from the shoot"

// requireLoadBalancer requires that a client outside of both clusters reaches a pod on the worker at the address of a load balancer, which
// cloud-controller-manager creates in the provider cluster. The shoot has no kube-proxy: the pod listens at the Service's port of the Node
// itself.
func (w *worker) requireLoadBalancer(t *testing.T) {
	t.Helper()

	service, err := w.Target.CoreV1().Services(w.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: webName},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	command := fmt.Sprintf("mkdir /www && echo %s > /www/index.html && exec httpd -f -p %d -h /www", greeting, service.Spec.Ports[0].NodePort)
	_, err = w.Target.CoreV1().Pods(w.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: webName},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: w.machine.Name},
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: new(int64), // it does not end by itself
			Containers: []corev1.Container{{
				Name:            webName,
				Image:           images.Busybox,
				ImagePullPolicy: corev1.PullNever,
				Command:         []string{"sh", "-c", command},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	w.assignAddress(t)
	w.requireBalanced(t)
}

// assignAddress gives the load balancer the address of a provider node, as some products do, whose controllers the provider cluster lacks.
func (w *worker) assignAddress(t *testing.T) {
	t.Helper()

	node, err := w.Kube.CoreV1().Nodes().Get(t.Context(), w.nodes(t)[0], metav1.GetOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "the load balancer has an address", func(ctx context.Context) (bool, error) {
		balancers, err := w.Kube.CoreV1().Services(w.ProviderNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(balancers.Items) != 1 {
			return false, err
		}

		balancer := &balancers.Items[0]
		balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: node.Status.Addresses[0].Address}}
		_, err = w.Kube.CoreV1().Services(w.ProviderNamespace).UpdateStatus(ctx, balancer, metav1.UpdateOptions{})

		return err == nil, err
	})
}

// requireBalanced requires that the pod answers at the address in the status of its Service.
func (w *worker) requireBalanced(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "the pod answers at the address of the load balancer", func(ctx context.Context) (bool, error) {
		service, err := w.Target.CoreV1().Services(w.Namespace).Get(ctx, webName, metav1.GetOptions{})
		if err != nil || len(service.Status.LoadBalancer.Ingress) != 1 {
			return false, err
		}

		answer, err := get(ctx, "http://"+service.Status.LoadBalancer.Ingress[0].IP+"/")

		return answer == greeting, err
	})
}

// deleteLoadBalancer deletes the Service, and returns when its load balancer is gone.
func (w *worker) deleteLoadBalancer(t *testing.T) {
	t.Helper()

	require.NoError(t, w.Target.CoreV1().Services(w.Namespace).Delete(t.Context(), webName, metav1.DeleteOptions{}))
	harness.Eventually(t, "the load balancer is gone", func(ctx context.Context) (bool, error) {
		_, err := w.Target.CoreV1().Services(w.Namespace).Get(ctx, webName, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return false, err
		}

		balancers, err := w.Kube.CoreV1().Services(w.ProviderNamespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(balancers.Items) == 0, err
	})
}
