// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// followed is what the refresher follows in the provider cluster: the load balancers, and the launcher pods as soon as
// a Service needs them.
type followed struct {
	refresher *refresher
	balancers *providercluster.Mirror[*corev1.Service, balancerState]
	pods      *providercluster.Mirror[*corev1.Pod, launcher]

	// podsNeeded is closed when the launcher pods are needed.
	podsNeeded  chan struct{}
	requirePods func()

	mu sync.Mutex
	// moved are the machines whose launcher pods have changed.
	moved sets.Set[string]
}

// balancerState is what is kept of a load balancer.
type balancerState struct {
	namespace, service string // of its Service
	// stale is set if it was not what its Service wants when it was read.
	stale   bool
	ingress []corev1.LoadBalancerIngress
}

func newFollowed(r *refresher) *followed {
	f := &followed{refresher: r, podsNeeded: make(chan struct{}), moved: sets.New[string]()}
	f.requirePods = sync.OnceFunc(func() { close(f.podsNeeded) })
	f.balancers = &providercluster.Mirror[*corev1.Service, balancerState]{
		Program: r.balancers.provider,
		List:    &corev1.ServiceList{},
		Labels:  map[string]string{labelCluster: r.balancers.clusterName},
		Keep:    f.keepBalancer,
		Changed: f.balancerChanged,
	}
	f.pods = &providercluster.Mirror[*corev1.Pod, launcher]{
		Program: r.balancers.provider,
		List:    &corev1.PodList{},
		Labels:  r.balancers.machineLabels(),
		Keep:    func(pod *corev1.Pod) (launcher, bool) { l := launcherOf(pod); return l, len(l.ips) > 0 },
		Changed: f.podChanged,
	}

	return f
}

// run follows until the context ends.
func (f *followed) run(ctx context.Context) {
	go f.balancers.Run(ctx)

	select {
	case <-f.podsNeeded:
		f.pods.Run(ctx)
	case <-ctx.Done():
	}
}

func (f *followed) keepBalancer(balancer *corev1.Service) (balancerState, bool) {
	s := balancerState{
		namespace: balancer.Labels[labelServiceNamespace],
		service:   balancer.Labels[labelServiceName],
		ingress:   status(balancer, balancer).Ingress,
	}

	if service := f.serviceOf(balancer.Name, s); service != nil {
		desired, err := f.refresher.balancers.desired(service, balancer)
		s.stale = err != nil || !equality.Semantic.DeepEqual(desired, balancer)
		s.ingress = status(service, balancer).Ingress
	}

	return s, true
}

// serviceOf returns the Service of a load balancer; nil if it has none that the service controller provides for.
func (f *followed) serviceOf(name string, s balancerState) *corev1.Service {
	service, err := f.refresher.services.Services(s.namespace).Get(s.service)
	if err != nil || balancerName(service) != name || !isBalanced(service) {
		return nil
	}

	return service
}

// balancerChanged refreshes the Service of a load balancer that is not what the Service wants. An address is reported
// at once, however often others change the load balancer.
func (f *followed) balancerChanged(name string, before, now *balancerState) {
	state := now
	if state == nil {
		state = before
	}

	if state == nil {
		return
	}

	service := f.serviceOf(name, *state)

	switch {
	case service == nil:
	case now != nil && !equality.Semantic.DeepEqual(now.ingress, service.Status.LoadBalancer.Ingress):
		f.refresher.enqueue(service, settle)
	case now == nil || now.stale:
		f.refresher.repair(service)
	}
}

// hasOtherAddresses reports whether the load balancer of a Service has other addresses than its status.
func (f *followed) hasOtherAddresses(service *corev1.Service) bool {
	state, ok := f.balancers.Get(balancerName(service))

	return ok && !equality.Semantic.DeepEqual(state.ingress, service.Status.LoadBalancer.Ingress)
}

// podChanged refreshes the Services with endpoints on a machine whose pod is another one, or has other addresses.
func (f *followed) podChanged(_ string, before, now *launcher) {
	if before != nil && now != nil && reflect.DeepEqual(*before, *now) {
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	for _, l := range []*launcher{before, now} {
		if l != nil {
			f.moved.Insert(l.machine)
		}
	}

	f.refresher.queue.AddAfter(moved, settle)
}

// refreshMoved refreshes the Services with endpoints on machines that have moved.
func (r *refresher) refreshMoved() {
	r.followed.mu.Lock()
	machines := r.followed.moved
	r.followed.moved = sets.New[string]()
	r.followed.mu.Unlock()

	for _, service := range r.local() {
		serving, err := r.machinesOf(service)
		if err != nil {
			r.enqueue(service, settle)
		}

		for machine := range serving {
			if machines.Has(machine) {
				r.enqueue(service, 0)

				break
			}
		}
	}
}

// awaitLaunchers returns the launcher pods of the machines. It waits until they have been read.
func (r *refresher) awaitLaunchers(ctx context.Context) (all []launcher, err error) {
	r.followed.requirePods()

	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()

	_ = wait.PollUntilContextCancel(ctx, syncInterval, true, func(context.Context) (bool, error) {
		all, err = r.followed.pods.All()

		return err == nil, nil
	})

	return all, err
}
