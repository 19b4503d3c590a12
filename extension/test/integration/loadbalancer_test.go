// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// requireLoadBalancer creates a Service of type LoadBalancer in the shoot. Its load balancer in the
// provider cluster selects the machines of the shoot, and is deleted with it.
func requireLoadBalancer(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}},
	}
	require.NoError(t, theSeed.Target.Create(t.Context(), service))

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKeyFromObject(service), service)

		return err == nil && len(service.Status.LoadBalancer.Ingress) == 1, "no address"
	})

	balancers := &corev1.ServiceList{}
	machines := &kubevirtv1.VirtualMachineInstanceList{}
	ofShoot := client.MatchingLabels{"kubevirt.provider.extensions.gardener.cloud/cluster": shoot.Namespace}
	require.NoError(t, theSeed.Provider.List(t.Context(), balancers, client.InNamespace(shoot.ProviderNamespace), ofShoot))
	require.Len(t, balancers.Items, 1)
	require.Equal(t, service.Spec.Ports[0].NodePort, balancers.Items[0].Spec.Ports[0].TargetPort.IntVal)

	require.NoError(t, theSeed.Provider.List(t.Context(), machines, client.InNamespace(shoot.ProviderNamespace),
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(balancers.Items[0].Spec.Selector)}))
	require.Len(t, machines.Items, 1, "machines that the load balancer selects")

	require.NoError(t, theSeed.Target.Delete(t.Context(), service))
	eventually(t, func(ctx context.Context) (bool, string) {
		tenant := theSeed.Target.Get(ctx, client.ObjectKeyFromObject(service), service)
		balancer := theSeed.Provider.Get(ctx, client.ObjectKeyFromObject(&balancers.Items[0]), &corev1.Service{})

		return apierrors.IsNotFound(tenant) && apierrors.IsNotFound(balancer), "the load balancer remains"
	})
}
