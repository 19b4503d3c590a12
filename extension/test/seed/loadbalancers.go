// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cloudControllerManager is the Deployment of cloud-controller-manager, and cloudControllerContainer its container.
const (
	cloudControllerManager   = "cloud-controller-manager"
	cloudControllerContainer = "kubevirt-cloud-controller-manager"
)

// cloudControllerArgs are arguments for the lab. Shoots share the cluster of their Nodes: the controller that removes
// Nodes without a machine would remove those of other shoots. The suite runs it in a cluster of its own.
var cloudControllerArgs = []string{"--bind-address=127.0.0.1", "--controllers=*,-cloud-node-lifecycle-controller"}

// loadBalancerAddress is the address that the load balancers of the provider cluster have; it is reserved for
// documentation.
const loadBalancerAddress = "192.0.2.1"

// runLoadBalancers runs the pod of cloud-controller-manager until ctx ends. For the implementation of load balancers
// in the provider cluster, it assigns their addresses.
func (s *Seed) runLoadBalancers(ctx context.Context, namespace, providerNamespace string) (failed error) {
	pod := &kubelet{
		seed:     s,
		key:      client.ObjectKey{Namespace: namespace, Name: cloudControllerManager},
		folder:   filepath.Join(s.Folder, "pods", namespace, cloudControllerManager),
		mayStart: s.mayUseShoot,
		mayExit:  true, // It exits if it loses its Lease.
	}
	defer func() { failed = errors.Join(failed, pod.stop(ctx)) }()

	const every = 500 * time.Millisecond

	return s.play(ctx, every, "run cloud-controller-manager of namespace "+namespace, func(ctx context.Context) error {
		return errors.Join(pod.sync(ctx), pod.reportRunning(ctx), s.AssignAddresses(ctx, providerNamespace))
	})
}

// AssignAddresses assigns an address to each load balancer in a namespace of the provider cluster that has none.
func (s *Seed) AssignAddresses(ctx context.Context, providerNamespace string) error {
	balancers := &corev1.ServiceList{}
	if err := s.Provider.List(ctx, balancers, client.InNamespace(providerNamespace)); err != nil {
		return err
	}

	for i := range balancers.Items {
		balancer := &balancers.Items[i]
		if balancer.Spec.Type != corev1.ServiceTypeLoadBalancer || len(balancer.Status.LoadBalancer.Ingress) > 0 {
			continue
		}

		balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: loadBalancerAddress}}
		if err := s.Provider.Status().Update(ctx, balancer); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}

	return nil
}

// DeleteLoadBalancers deletes the Services of type LoadBalancer in the cluster of the shoots' Nodes, and waits
// until cloud-controller-manager has deleted their load balancers. gardenlet deletes all objects of a shoot.
func (s *Seed) DeleteLoadBalancers(ctx context.Context) error {
	const every, atMost = 500 * time.Millisecond, time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		services := &corev1.ServiceList{}
		if err := s.Target.List(ctx, services); err != nil {
			return false, err
		}

		gone := true

		for i := range services.Items {
			service := &services.Items[i]
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}

			gone = false

			if err := s.Target.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}

		return gone, nil
	})

	return wrap(err, "delete the load balancers of the shoot")
}
