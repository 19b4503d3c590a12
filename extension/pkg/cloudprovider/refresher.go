// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
)

const (
	// settle is the time in which several events of a Service lead to one refresh.
	settle = 300 * time.Millisecond
	// minRetry and maxRetry bound the time after which a refresh that failed is repeated.
	minRetry, maxRetry = 2 * time.Second, 5 * time.Minute
	// syncTimeout bounds the time that a call waits for objects to be read.
	syncTimeout, syncInterval = 5 * time.Second, 50 * time.Millisecond
	// maxRepair bounds the time after which a load balancer is repaired that another program has changed. It begins
	// with settle and doubles, since the other program may take each repair back.
	maxRepair = 5 * time.Minute
	// refreshWorkers is the number of Services that are refreshed at a time.
	refreshWorkers = 4
	// pendingAfter is the time after which a load balancer without an address is reported.
	pendingAfter = time.Minute
)

// moved is the key of the queue for the machines that have moved to another pod. No Service has it.
const moved = "/"

// refresher repeats the steps of the service controller when something changes that it does not watch: a load
// balancer in the provider cluster, the launcher pods, and the endpoints of a Service. It only continues
// what the service controller has begun: a Service without its finalizer has no load balancer yet.
type refresher struct {
	balancers *loadBalancers
	shoot     kubernetes.Interface
	queue     workqueue.TypedRateLimitingInterface[string]
	repairs   *flowcontrol.Backoff

	services  corelisters.ServiceLister
	nodes     corelisters.NodeLister
	endpoints discoverylisters.EndpointSliceLister
	synced    []cache.InformerSynced

	followed *followed

	broadcaster record.EventBroadcaster
}

// newRefresher returns the refresher of the load balancers, which gives them the endpoints of Services and the
// recorder of their Events. The factory must be started afterwards.
func newRefresher(balancers *loadBalancers, shoot kubernetes.Interface, factory informers.SharedInformerFactory) *refresher {
	services := factory.Core().V1().Services()
	nodes := factory.Core().V1().Nodes()
	endpoints := factory.Discovery().V1().EndpointSlices()

	r := &refresher{
		balancers: balancers,
		shoot:     shoot,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "load-balancer-refresh"}),
		repairs:     flowcontrol.NewBackOff(settle, maxRepair),
		services:    services.Lister(),
		nodes:       nodes.Lister(),
		endpoints:   endpoints.Lister(),
		synced:      []cache.InformerSynced{services.Informer().HasSynced, nodes.Informer().HasSynced, endpoints.Informer().HasSynced},
		broadcaster: record.NewBroadcaster(),
	}
	r.followed = newFollowed(r)

	balancers.serving = r.machinesOf
	balancers.launchers = r.awaitLaunchers
	balancers.again = r.again
	balancers.events = r.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: userAgent})

	// They fail only for informers that have started.
	_ = services.Informer().SetTransform(trim)
	_ = nodes.Informer().SetTransform(trim)
	_ = endpoints.Informer().SetTransform(trim)
	_, _ = services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: r.serviceChanged})
	_, _ = endpoints.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.endpointsChanged,
		UpdateFunc: func(_, updated any) { r.endpointsChanged(updated) },
		DeleteFunc: r.endpointsChanged,
	})

	return r
}

// start runs the refresher until stop is closed.
func (r *refresher) start(stop <-chan struct{}) {
	ctx := wait.ContextForChannel(stop)

	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.shoot.CoreV1().Events("")})

	go func() {
		<-stop
		r.queue.ShutDown()
		r.broadcaster.Shutdown()
	}()

	go func() {
		if !cache.WaitForCacheSync(stop, r.synced...) {
			return
		}

		for range refreshWorkers {
			go wait.UntilWithContext(ctx, r.work, time.Second)
		}

		r.followed.run(ctx)
	}()
}

func (r *refresher) work(ctx context.Context) {
	for {
		key, ended := r.queue.Get()
		if ended {
			return
		}

		if key == moved {
			r.refreshMoved()
			r.queue.Done(key)

			continue
		}

		if err := r.refresh(ctx, key); err != nil {
			klog.ErrorS(err, "Failed to refresh a load balancer; trying again", "service", key)
			r.queue.AddRateLimited(key)
		} else {
			r.queue.Forget(key)
		}

		r.queue.Done(key)
	}
}

// refresh repeats the steps of the service controller for a Service. The lister is read again under the lock: it
// knows whatever made the service controller delete the load balancer.
func (r *refresher) refresh(ctx context.Context, key string) error {
	service := r.balanced(key)
	if service == nil {
		r.repairs.DeleteEntry(key)

		return nil
	}

	r.balancers.locks.LockKey(balancerName(service))
	defer r.balancers.unlock(service)

	latest := r.balanced(key)
	if latest == nil || latest.UID != service.UID {
		return nil
	}

	balancer, err := r.balancers.ensure(ctx, latest)
	if err != nil {
		r.balancers.events.Eventf(latest, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: %v", err)

		return err
	}

	if len(balancer.Status.LoadBalancer.Ingress) == 0 && time.Since(balancer.CreationTimestamp.Time) > pendingAfter {
		r.balancers.events.Event(latest, corev1.EventTypeWarning, "LoadBalancerPending",
			"The provider cluster has not assigned an address yet; it needs an implementation of load balancers with a free address, such as MetalLB")
	}

	updated := latest.DeepCopy()
	updated.Status.LoadBalancer = *status(latest, balancer)

	if equality.Semantic.DeepEqual(updated.Status, latest.Status) {
		return nil
	}

	if _, err := servicehelper.PatchService(r.shoot.CoreV1(), latest, updated); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the address of Service %s: %w", key, err)
	}

	return nil
}

// balanced returns a Service; nil if the service controller provides no load balancer for it.
func (r *refresher) balanced(key string) *corev1.Service {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil
	}

	service, err := r.services.Services(namespace).Get(name)
	if err != nil || !isBalanced(service) {
		return nil
	}

	return service
}

// isBalanced reports whether the service controller provides a load balancer for a Service.
func isBalanced(service *corev1.Service) bool {
	return service.DeletionTimestamp == nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		service.Spec.LoadBalancerClass == nil && servicehelper.HasLBFinalizer(service)
}

func (r *refresher) enqueue(service *corev1.Service, after time.Duration) {
	r.queue.AddAfter(service.Namespace+"/"+service.Name, after)
}

// again is enqueue for steps that are repeated in any case: not before a contested load balancer is to be repaired.
func (r *refresher) again(service *corev1.Service, after time.Duration) {
	r.repairs.GC()
	r.enqueue(service, max(after, r.repairs.Get(service.Namespace+"/"+service.Name)))
}

// repair is enqueue for a load balancer that another program has changed or deleted.
func (r *refresher) repair(service *corev1.Service) {
	key := service.Namespace + "/" + service.Name

	r.repairs.Next(key, r.repairs.Clock.Now())
	r.queue.AddAfter(key, r.repairs.Get(key))
}

// serviceChanged refreshes a Service after a change that the service controller ignores, or after the service
// controller, which does not hold the lock then, has written addresses that are not the current ones.
func (r *refresher) serviceChanged(old, updated any) {
	before, _ := old.(*corev1.Service)
	service, _ := updated.(*corev1.Service)

	if before == nil || service == nil || !isBalanced(service) {
		return
	}

	if !ptr.Equal(before.Spec.IPFamilyPolicy, service.Spec.IPFamilyPolicy) ||
		!ptr.Equal(before.Spec.AllocateLoadBalancerNodePorts, service.Spec.AllocateLoadBalancerNodePorts) ||
		!equality.Semantic.DeepEqual(before.Status, service.Status) && r.followed.hasOtherAddresses(service) {
		r.enqueue(service, settle)
	}
}

// endpointsChanged refreshes the Service of endpoints if it has the policy Local.
func (r *refresher) endpointsChanged(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}

	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}

	service, err := r.services.Services(slice.Namespace).Get(slice.Labels[discoveryv1.LabelServiceName])
	if err == nil && isBalanced(service) && isLocal(service) {
		r.enqueue(service, settle)
	}
}

// local returns the Services with the policy Local.
func (r *refresher) local() []*corev1.Service {
	services, err := r.services.List(labels.Everything())
	if err != nil {
		return nil // A lister has no errors.
	}

	return slices.DeleteFunc(services, func(s *corev1.Service) bool { return !isBalanced(s) || !isLocal(s) })
}

// machinesOf returns the machines with endpoints of a Service. It waits until all endpoints are known: a load
// balancer must not lose those that are read later.
func (r *refresher) machinesOf(service *corev1.Service) (machines, error) {
	if !r.awaitSync() {
		return nil, errors.New("the EndpointSlices of the cluster have not been read yet; trying again")
	}

	all, err := r.endpoints.EndpointSlices(service.Namespace).List(labels.Set{discoveryv1.LabelServiceName: service.Name}.AsSelector())
	if err != nil {
		return nil, fmt.Errorf("list the endpoints of Service %s/%s: %w", service.Namespace, service.Name, err)
	}

	serving := machines{}

	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			ready := isReady(endpoint)
			serves := ptr.Deref(endpoint.Conditions.Serving, ready)

			if endpoint.NodeName != nil && serves {
				machine := r.machine(*endpoint.NodeName)
				serving[machine] = serving[machine] || ready
			}
		}
	}

	return serving, nil
}

// awaitSync waits for the informers, and reports whether they have read all objects.
func (r *refresher) awaitSync() bool {
	stop := make(chan struct{})
	timer := time.AfterFunc(syncTimeout, func() { close(stop) })

	defer timer.Stop()

	return cache.WaitForCacheSync(stop, r.synced...)
}

// machine returns the name of the machine of a Node.
func (r *refresher) machine(nodeName string) string {
	node, err := r.nodes.Get(nodeName)
	if err != nil {
		return nodeName
	}

	if name, err := providerid.Parse(node.Spec.ProviderID); err == nil {
		return name
	}

	return nodeName
}

// trim drops what neither this program nor Kubernetes' controllers read of an object of the cluster: those of all
// kinds are in memory. It is the transformation of informers.
func trim(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}

	switch o := object.(type) {
	case *corev1.Node:
		o.Status.Images = nil
		o.Status.VolumesInUse = nil
		o.Status.VolumesAttached = nil
	case *discoveryv1.EndpointSlice:
		o.Annotations = nil
		o.Ports = nil
		o.Endpoints = endpointsOf(o)
	}

	return object, nil
}

// endpointsOf returns the Nodes of the endpoints in an EndpointSlice, once for each condition.
func endpointsOf(slice *discoveryv1.EndpointSlice) []discoveryv1.Endpoint {
	type key struct {
		node           string
		ready, serving bool
	}

	var all []discoveryv1.Endpoint

	seen := sets.New[key]()

	for _, endpoint := range slice.Endpoints {
		ready := isReady(endpoint)
		k := key{ptr.Deref(endpoint.NodeName, ""), ready, ptr.Deref(endpoint.Conditions.Serving, ready)}

		if k.node != "" && !seen.Has(k) {
			seen.Insert(k)

			all = append(all, discoveryv1.Endpoint{NodeName: &k.node, Conditions: discoveryv1.EndpointConditions{Ready: &k.ready, Serving: &k.serving}})
		}
	}

	return all
}
