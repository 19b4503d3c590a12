// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	poll    = 500 * time.Millisecond
	timeout = time.Minute
)

// service is a Service that a user creates in the shoot.
func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"}},
	}
}

// serve creates a load balancer, and shows the storage classes of the shoot.
func (d *demo) serve(ctx context.Context) error {
	d.out.Line("cloud-controller-manager runs with the arguments and the accounts of its Deployment; the load balancer of the provider cluster is simulated.")

	web := service()
	if err := d.seed.Target.Create(ctx, web); err != nil {
		return err
	}

	if err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		err := d.seed.Target.Get(ctx, client.ObjectKeyFromObject(web), web)

		return len(web.Status.LoadBalancer.Ingress) > 0, err
	}); err != nil {
		return fmt.Errorf("wait for the address of the Service: %w", err)
	}

	d.out.Line("Service %s: address %s, port %d on the machines", web.Name, web.Status.LoadBalancer.Ingress[0].IP, web.Spec.Ports[0].NodePort)

	classes := &storagev1.StorageClassList{}
	if err := d.seed.Target.List(ctx, classes); err != nil {
		return err
	}

	for _, class := range classes.Items {
		d.out.Line("StorageClass %s: %s, class %s of the provider cluster", class.Name, class.Provisioner, class.Parameters["infraStorageClassName"])
	}

	return nil
}

// deleteService deletes the Service, and waits until its load balancer is gone.
func (d *demo) deleteService(ctx context.Context) error {
	web := service()
	if err := d.seed.Target.Delete(ctx, web); err != nil {
		return err
	}

	return wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		err := d.seed.Target.Get(ctx, client.ObjectKeyFromObject(web), web)

		return err != nil, client.IgnoreNotFound(err)
	})
}
