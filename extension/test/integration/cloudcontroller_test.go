// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestCloudControllerManager runs cloud-controller-manager without Gardener, for the Nodes and Services of the seed's API
// server. The parts run one after the other: each program serves all of them.
func TestCloudControllerManager(t *testing.T) {
	t.Parallel()

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"fields of a Service", requireCloudControllerFields},
		{"type of a Service", requireCloudControllerType},
		{"addresses", requireCloudControllerAddresses},
		{"policy Local", requireCloudControllerLocal},
		{"Nodes", requireCloudControllerNodes},
		{"one namespace", requireCloudControllerNamespace},
		{"killed", requireCloudControllerKilled},
		{"hostile servers", requireCloudControllerHostile},
	} {
		t.Run(part.name, part.run)
	}
}

// balanced are a Service of a cluster, and its load balancer in a namespace of the provider cluster.
type balanced struct {
	cluster   client.Client
	service   *corev1.Service
	namespace string
}

// newBalanced creates a Service of type LoadBalancer in a cluster.
func newBalanced(t *testing.T, cluster client.Client, namespace string, change func(*corev1.Service)) *balanced {
	t.Helper()

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "web-"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	if change != nil {
		change(service)
	}

	require.NoError(t, cluster.Create(t.Context(), service))

	return &balanced{cluster: cluster, service: service, namespace: namespace}
}

// balancer returns the load balancer; nil if there is none.
func (b *balanced) balancer(ctx context.Context) (*corev1.Service, error) {
	balancer := &corev1.Service{}
	name := "a" + strings.ReplaceAll(string(b.service.UID), "-", "")
	err := theSeed.Provider.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name[:32]}, balancer)

	return balancer, err
}

// update changes the Service.
func (b *balanced) update(t *testing.T, change func(*corev1.Service)) {
	t.Helper()

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := b.cluster.Get(ctx, client.ObjectKeyFromObject(b.service), b.service); err != nil {
			return false, err.Error()
		}

		change(b.service)

		err := b.cluster.Update(ctx, b.service)
		if err != nil {
			return apierrors.IsInvalid(err), err.Error()
		}

		return true, ""
	})
}

// awaits waits until the load balancer has a state.
func (b *balanced) awaits(t *testing.T, description string, holds func(*corev1.Service) bool) *corev1.Service {
	t.Helper()

	var balancer *corev1.Service

	eventually(t, func(ctx context.Context) (bool, string) {
		var err error
		if balancer, err = b.balancer(ctx); err != nil {
			return false, description + ": " + err.Error()
		}

		return holds(balancer), fmt.Sprintf("%s: %v %v", description, balancer.Annotations, balancer.Spec)
	})

	return balancer
}

// endpoints returns the addresses in the EndpointSlices of the load balancer.
func (b *balanced) endpoints(ctx context.Context) ([]string, error) {
	balancer, err := b.balancer(ctx)
	if err != nil {
		return nil, err
	}

	all := &discoveryv1.EndpointSliceList{}
	if err := theSeed.Provider.List(ctx, all, client.InNamespace(b.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: balancer.Name}); err != nil {
		return nil, err
	}

	var addresses []string

	for _, slice := range all.Items {
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
	}

	slices.Sort(addresses)

	return slices.Compact(addresses), nil
}

func (b *balanced) awaitEndpoints(t *testing.T, want ...string) {
	t.Helper()

	eventually(t, func(ctx context.Context) (bool, string) {
		found, err := b.endpoints(ctx)

		return err == nil && slices.Equal(found, want), fmt.Sprint(found, err)
	})
}

// delete deletes the Service, and waits until it and its load balancer are gone.
func (b *balanced) delete(t *testing.T) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(b.cluster.Delete(t.Context(), b.service)))
	eventually(t, func(ctx context.Context) (bool, string) {
		service := b.cluster.Get(ctx, client.ObjectKeyFromObject(b.service), &corev1.Service{})
		_, balancer := b.balancer(ctx)

		return apierrors.IsNotFound(service) && apierrors.IsNotFound(balancer), fmt.Sprint("it remains: ", service, balancer)
	})
}

// providerNamespace creates a namespace in the provider cluster.
func providerNamespace(t *testing.T, name string) string {
	t.Helper()
	require.NoError(t, theSeed.Provider.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))

	return name
}

// startCloudController starts a cloud-controller-manager that ends with the test.
func startCloudController(t *testing.T, c seed.CloudController) *process.Process {
	t.Helper()

	p, err := theSeed.StartCloudController(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()

		require.NoError(t, p.Stop(ctx))
	})

	return p
}

// newMachine creates a running machine in a namespace of the provider cluster, and returns the address of its pod.
func newMachine(t *testing.T, namespace, name, cluster string) string {
	t.Helper()

	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: ptr.To(kubevirtv1.RunStrategyAlways),
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": cluster}},
				Spec: kubevirtv1.VirtualMachineInstanceSpec{
					Domain: kubevirtv1.DomainSpec{
						Memory: &kubevirtv1.Memory{Guest: ptr.To(resource.MustParse("1Gi"))},
						Devices: kubevirtv1.Devices{
							Interfaces: []kubevirtv1.Interface{{Name: "default", InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}}}},
							Disks:      []kubevirtv1.Disk{{Name: "root", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}}},
						},
					},
					Networks: []kubevirtv1.Network{*kubevirtv1.DefaultPodNetwork()},
					Volumes:  []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "registry.example.com/disk:v1"}}}},
				},
			},
		},
	}
	require.NoError(t, theSeed.Provider.Create(t.Context(), vm))

	address := ""

	eventually(t, func(ctx context.Context) (bool, string) {
		pods := &corev1.PodList{}
		if err := theSeed.Provider.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"vm.kubevirt.io/name": name}); err != nil || len(pods.Items) == 0 {
			return false, fmt.Sprint("no pod ", err)
		}

		pod := &pods.Items[0]
		address = pod.Status.PodIP

		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}), fmt.Sprint(pod.Status)
	})

	return address
}

// newEndpoints writes the endpoints of a Service, on Nodes.
func newEndpoints(t *testing.T, b *balanced, nodes ...string) {
	t.Helper()

	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: b.service.Namespace, Name: b.service.Name}}
	err := b.cluster.Get(t.Context(), client.ObjectKeyFromObject(slice), slice)
	require.NoError(t, client.IgnoreNotFound(err))

	slice.Labels = map[string]string{discoveryv1.LabelServiceName: b.service.Name}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	slice.Endpoints = nil

	for i, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("198.51.100.%d", i+1)}, NodeName: ptr.To(node)})
	}

	if apierrors.IsNotFound(err) {
		require.NoError(t, b.cluster.Create(t.Context(), slice))
	} else {
		require.NoError(t, b.cluster.Update(t.Context(), slice))
	}
}
