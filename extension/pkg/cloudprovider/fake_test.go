// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	clusterName = "shoot--dev--a"
	namespace   = "machines"
	uid         = types.UID("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9")
	name        = "a0a1b2c3d4e5f60718293a4b5c6d7e8f"
)

// world is a provider cluster and a shoot.
type world struct {
	*loadBalancers

	t      *testing.T
	client client.WithWatch
	// backdoor sends requests that are neither recorded nor failed.
	backdoor client.WithWatch
	events   *record.FakeRecorder

	// expires is the next watch.
	expires watch.Interface
	// repeated is the time after which the steps were to be repeated.
	repeated time.Duration

	mu       sync.Mutex
	requests []string
	// fails returns the error of a request; nil for none.
	fails func(request string) error
}

func newWorld(t *testing.T, config *Config, objects ...client.Object) *world {
	t.Helper()

	if config == nil {
		config = &Config{InfraLabels: map[string]string{"owner": "a"}}
	}

	for _, o := range objects {
		identify(o)
	}

	w := &world{t: t, events: record.NewFakeRecorder(1000), fails: func(string) error { return nil }}
	w.backdoor = fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(objects...).WithStatusSubresource(&corev1.Service{}).Build()
	w.client = interceptor.NewClient(w.backdoor, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return w.request("get", o, func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			return w.request("list", l, func() error {
				err := c.List(ctx, l, opts...)
				l.SetResourceVersion("1")

				return err
			})
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.request("create", o, func() error {
				identify(o)

				if service, ok := o.(*corev1.Service); ok {
					service.CreationTimestamp = metav1.Now()

					if len(service.Spec.IPFamilies) == 0 {
						service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
					}
				}

				return c.Create(ctx, o, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.request("update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if w.expires != nil {
				defer func() { w.expires = nil }()

				return w.expires, nil
			}

			return watchAll(ctx, c, list, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.request("delete", o, func() error {
				options := (&client.DeleteOptions{}).ApplyOptions(opts)
				if _, ok := o.(*corev1.Service); ok && (options.Preconditions == nil || *options.Preconditions.UID != o.GetUID()) {
					return errors.New("a load balancer that another process has created again would be deleted")
				}

				return c.Delete(ctx, o, opts...)
			})
		},
	})
	w.start(config)

	return w
}

// identify gives an object a UID, as an API server does.
func identify(o client.Object) {
	if o.GetUID() == "" {
		o.SetUID(types.UID("uid-" + o.GetName()))
	}
}

// start begins with an empty memory, as a process does. Without a refresher, no machine has endpoints.
func (w *world) start(config *Config) {
	w.loadBalancers = newLoadBalancers(config, clusterName, providercluster.ProgramOf(w.client, namespace))
	w.loadBalancers.events = w.events
	w.serving = func(*corev1.Service) (machines, error) { return machines{}, nil }
	w.again = func(_ *corev1.Service, after time.Duration) { w.repeated = after }
	w.launchers = func(ctx context.Context) ([]launcher, error) {
		return providercluster.Collect(ctx, &w.provider.Cluster, &corev1.PodList{}, func(pod *corev1.Pod) (launcher, bool) {
			l := launcherOf(pod)

			return l, len(l.ips) > 0
		}, client.InNamespace(namespace), client.MatchingLabels(w.machineLabels()))
	}
}

// watchAll replays the objects that exist: the fake client has no versions from which a watch could begin.
func watchAll(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	source, err := c.Watch(ctx, list, options...)
	if err != nil {
		return nil, err
	}

	list = list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // It is a copy.
	if err := c.List(ctx, list, options...); err != nil {
		return nil, err
	}

	events := make(chan watch.Event)

	go func() {
		defer close(events)

		_ = meta.EachListItem(list, func(object runtime.Object) error {
			events <- watch.Event{Type: watch.Added, Object: object}

			return nil
		})

		defer source.Stop()

		for {
			select {
			case event := <-source.ResultChan():
				events <- event
			case <-ctx.Done():
				return
			}
		}
	}()

	return watch.NewProxyWatcher(events), nil
}

// request records a request, and fails it.
func (w *world) request(verb string, object any, send func() error) error {
	text := verb + " " + strings.TrimPrefix(fmt.Sprintf("%T", object), "*")

	w.mu.Lock()
	w.requests = append(w.requests, text)
	err := w.fails(text)
	w.mu.Unlock()

	if err != nil {
		return err
	}

	return send()
}

// sent returns the requests since the last call.
func (w *world) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()

	all := w.requests
	w.requests = nil

	return all
}

// apply provides the load balancer of a Service, and returns it.
func (w *world) apply(service *corev1.Service) *corev1.Service {
	w.t.Helper()

	_, err := w.EnsureLoadBalancer(w.t.Context(), "", service, nil)
	require.NoError(w.t, err)

	return w.balancer()
}

func (w *world) balancer() *corev1.Service {
	w.t.Helper()

	balancer := &corev1.Service{}
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, balancer))

	return balancer
}

// assign assigns an address to the load balancer.
func (w *world) assign(ingress ...corev1.LoadBalancerIngress) {
	w.t.Helper()

	balancer := w.balancer()
	balancer.Status.LoadBalancer.Ingress = ingress
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), balancer))
	w.sent()
}

// slices returns the EndpointSlices of the provider cluster.
func (w *world) slices() map[string]discoveryv1.EndpointSlice {
	w.t.Helper()

	list := &discoveryv1.EndpointSliceList{}
	require.NoError(w.t, w.client.List(w.t.Context(), list))

	all := map[string]discoveryv1.EndpointSlice{}
	for _, slice := range list.Items {
		all[slice.Name] = slice
	}

	return all
}

// theirs is an EndpointSlice that another controller of the provider cluster has written for the load balancer.
func theirs(sliceName, manager string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      sliceName,
			UID:       types.UID(sliceName),
			Labels:    map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}

	return s
}

// web is a Service of a shoot, as its API server completes it.
func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid, Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}},
		Spec: corev1.ServiceSpec{
			Type:                          corev1.ServiceTypeLoadBalancer,
			ClusterIP:                     "10.0.0.1",
			ClusterIPs:                    []string{"10.0.0.1"},
			Selector:                      map[string]string{"app": "web"},
			ExternalTrafficPolicy:         corev1.ServiceExternalTrafficPolicyCluster,
			InternalTrafficPolicy:         ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
			SessionAffinity:               corev1.ServiceAffinityNone,
			AllocateLoadBalancerNodePorts: ptr.To(true),
			IPFamilies:                    []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy:                ptr.To(corev1.IPFamilyPolicySingleStack),
			Ports:                         []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

// local is web with the policy Local.
func local() *corev1.Service {
	service := web()
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	service.Spec.HealthCheckNodePort = 31000

	return service
}

// pod is the launcher pod of a running machine.
func pod(machine string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "virt-launcher-" + machine, UID: types.UID(machine),
			Labels: map[string]string{labelRole: roleWorker, labelCluster: clusterName},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: machine, UID: "u", Controller: ptr.To(true)},
			},
		},
		Spec:   corev1.PodSpec{NodeName: "host-" + machine},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}

	return p
}

// instance is the instance of a machine.
func instance(machine string) *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: machine, Labels: map[string]string{labelCluster: clusterName}},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running},
	}
}

// running starts a refresher for objects of a shoot, whose Services have load balancers in the world.
func (w *world) running(objects ...client.Object) (*refresher, *kubefake.Clientset) {
	w.t.Helper()

	shoot := kubefake.NewClientset()
	for _, object := range objects {
		require.NoError(w.t, shoot.Tracker().Add(object))
	}

	factory := informers.NewSharedInformerFactory(shoot, 0)
	r := newRefresher(w.loadBalancers, shoot, factory)
	w.loadBalancers.events = w.events

	factory.Start(w.t.Context().Done())
	r.start(w.t.Context().Done())

	return r, shoot
}
