// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/keymutex"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// loadBalancers implements cloudprovider.LoadBalancer. A load balancer is a Service of the provider cluster.
type loadBalancers struct {
	provider    *providercluster.Program
	config      LoadBalancerConfig
	clusterName string
	infraLabels map[string]string

	// locks has one for each load balancer: the service controller and the refresher call the same methods.
	locks keymutex.KeyMutex

	// The refresher sets these before the service controller starts. serving returns the machines with endpoints of a
	// Service, launchers the pods of the machines; again repeats the steps for a Service after a time.
	serving   func(*corev1.Service) (machines, error)
	launchers func(context.Context) ([]launcher, error)
	again     func(service *corev1.Service, after time.Duration)
	events    record.EventRecorder
}

const (
	// locks is the number of load balancers that are changed at a time, at most.
	locks = 64
	// pendingInterval is how often a load balancer without an address is read, in case that no watch reports it.
	pendingInterval = time.Minute
)

func newLoadBalancers(config *Config, clusterName string, provider *providercluster.Program) *loadBalancers {
	return &loadBalancers{
		provider:    provider,
		config:      config.LoadBalancer,
		clusterName: clusterName,
		infraLabels: config.InfraLabels,
		locks:       keymutex.NewHashed(locks),
		events:      &record.FakeRecorder{},
	}
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (*loadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return balancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. A load balancer of another cluster does not exist for
// this one: it must not hold up the deletion of a Service.
func (b *loadBalancers) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	balancer, err := b.get(ctx, service)
	if err != nil || balancer == nil || b.checkOwner(balancer) != nil {
		return nil, false, err
	}

	return status(service, balancer), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. It does not wait for an address: the refresher reports it
// as soon as the provider cluster assigns it.
func (b *loadBalancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	b.locks.LockKey(balancerName(service))
	defer b.unlock(service)

	b.note(service)

	balancer, err := b.ensure(ctx, service)
	if err != nil {
		return nil, err
	}

	return status(service, balancer), nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. A load balancer selects the machines by their
// labels, or by the endpoints of its Service, not by Nodes.
func (*loadBalancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. The provider cluster deletes the
// EndpointSlices with their Service.
func (b *loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	b.locks.LockKey(balancerName(service))
	defer b.unlock(service)

	balancer, err := b.get(ctx, service)
	if err != nil || balancer == nil || b.checkOwner(balancer) != nil {
		return err
	}

	err = b.provider.Delete(ctx, balancer, client.Preconditions{UID: ptr.To(balancer.UID)})

	return explain(client.IgnoreNotFound(err))
}

func (b *loadBalancers) unlock(service *corev1.Service) {
	_ = b.locks.UnlockKey(balancerName(service)) // It never fails: the key is locked.
}

// get returns the load balancer of a Service; nil if there is none.
func (b *loadBalancers) get(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	balancer := &corev1.Service{}

	err := b.provider.Get(ctx, client.ObjectKey{Namespace: b.provider.Namespace, Name: balancerName(service)}, balancer)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}

	return balancer, explain(err)
}

// ensure makes the load balancer of a Service what it wants, and returns it. Without a difference, it sends no write.
// The caller holds the lock.
func (b *loadBalancers) ensure(ctx context.Context, service *corev1.Service) (balancer *corev1.Service, _ error) {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		balancer, err = b.apply(ctx, service)

		return err
	})
	if err != nil {
		return nil, err
	}

	if len(balancer.Status.LoadBalancer.Ingress) == 0 {
		b.again(service, pendingInterval)
	}

	return balancer, nil
}

// apply writes a load balancer and its endpoints. It keeps its selector until there are endpoints that replace those
// which it selects: all other fields are written before.
func (b *loadBalancers) apply(ctx context.Context, service *corev1.Service) (*corev1.Service, error) {
	actual, err := b.get(ctx, service)
	if err != nil {
		return nil, err
	}

	exists := actual != nil
	if !exists {
		actual = b.newBalancer(service)
	} else if err := b.checkOwner(actual); err != nil {
		return nil, err
	} else if actual.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the Service %s of the provider cluster is being deleted; another one will be created afterwards", actual.Name)
	}

	desired, err := b.desired(service, actual)
	if err != nil {
		return nil, err
	}

	if !b.hasEndpoints(service) {
		if err := b.write(ctx, exists, actual, desired); err != nil {
			return nil, err
		}

		return desired, b.removeEndpoints(ctx, service, desired)
	}

	return b.applyLocal(ctx, service, exists, actual, desired)
}

// applyLocal is apply for a load balancer with endpoints of this program.
func (b *loadBalancers) applyLocal(ctx context.Context, service *corev1.Service, exists bool, actual, desired *corev1.Service) (*corev1.Service, error) {
	balancer := desired.DeepCopy()
	balancer.Spec.Selector = actual.Spec.Selector

	selects := len(balancer.Spec.Selector) > 0
	if selects {
		balancer.Spec.ExternalTrafficPolicy = actual.Spec.ExternalTrafficPolicy
	}

	if err := b.write(ctx, exists, actual, balancer); err != nil {
		return nil, err
	}

	surplus, err := b.writeEndpoints(ctx, service, balancer)
	if err != nil {
		return nil, err
	}

	if selects {
		balancer.Spec.Selector = nil
		balancer.Spec.ExternalTrafficPolicy = desired.Spec.ExternalTrafficPolicy

		if err := explain(b.provider.Update(ctx, balancer)); err != nil {
			return nil, err
		}

		b.again(service, handover)
	}

	for i := range surplus {
		if err := b.deleteSlice(ctx, balancer, &surplus[i]); err != nil {
			return nil, explain(err)
		}
	}

	return balancer, nil
}

// write creates or updates a load balancer, if there is a difference.
func (b *loadBalancers) write(ctx context.Context, exists bool, actual, desired *corev1.Service) error {
	switch {
	case !exists:
		return explain(b.provider.Create(ctx, desired))
	case equality.Semantic.DeepEqual(desired, actual):
		return nil
	default:
		return explain(b.provider.Update(ctx, desired))
	}
}

// explain adds the remedy to an error of the provider cluster. It becomes an Event of the Service.
func explain(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
		return fmt.Errorf("%w; delete load balancers that are not needed, or ask the operator of the provider cluster for a larger quota", err)
	}

	return providercluster.Explain(err)
}

// note reports what a Service asks for and does not get.
func (b *loadBalancers) note(service *corev1.Service) {
	if keys := b.refused(service); len(keys) > 0 {
		b.events.Eventf(service, corev1.EventTypeWarning, "NotInLoadBalancer",
			"The load balancer does not get the annotations %s; ask the operator to allow those that it needs (loadBalancer.allowedAnnotations)", providercluster.Names(keys))
	}

	if len(service.Spec.ExternalIPs) > 0 {
		b.events.Event(service, corev1.EventTypeWarning, "NotInLoadBalancer", "The load balancer does not get externalIPs; use the address in the status")
	}
}
