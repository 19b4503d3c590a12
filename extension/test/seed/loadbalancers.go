// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"
)

// loadBalancerAddress is the address that the simulated load balancer of the provider cluster assigns; it
// is reserved for documentation.
const loadBalancerAddress = "192.0.2.1"

// cleanupFinalizer is the finalizer of Services with a load balancer (k8s.io/cloud-provider).
const cleanupFinalizer = "service.kubernetes.io/load-balancer-cleanup"

// runLoadBalancers provides the load balancers of a shoot's Services until ctx ends. It sends the requests
// of KubeVirt's cloud-controller-manager v0.6.0 (pkg/provider/loadbalancer.go) with the configuration and
// the credentials of its Deployment. The program itself does not run: its module is not served.
func (s *Seed) runLoadBalancers(ctx context.Context, namespace string) error {
	const every = 500 * time.Millisecond

	return s.play(ctx, every, "provide load balancers for namespace "+namespace, func(ctx context.Context) error {
		return s.provideLoadBalancers(ctx, namespace)
	})
}

// cloudControllerManager is a running cloud-controller-manager.
type cloudControllerManager struct {
	seed *Seed
	// provider is a client for the provider cluster with the account of the program.
	provider    client.Client
	clusterName string
	config      struct {
		Namespace    string            `json:"namespace"`
		InfraLabels  map[string]string `json:"infraLabels"`
		LoadBalancer struct {
			Enabled bool `json:"enabled"`
		} `json:"loadBalancer"`
	}
}

func (s *Seed) provideLoadBalancers(ctx context.Context, namespace string) error {
	deployment := &appsv1.Deployment{}
	if err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "cloud-controller-manager"}, deployment); err != nil || deployment.Status.ReadyReplicas == 0 {
		return client.IgnoreNotFound(err)
	}

	ccm, err := s.cloudControllerManager(ctx, deployment)
	if err != nil || ccm == nil || !ccm.config.LoadBalancer.Enabled {
		return err
	}

	services := &corev1.ServiceList{}
	if err := s.Target.List(ctx, services); err != nil {
		return err
	}

	for i := range services.Items {
		if service := &services.Items[i]; service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			if err := ccm.reconcile(ctx, service); err != nil && !apierrors.IsConflict(err) {
				return fmt.Errorf("service %s: %w", client.ObjectKeyFromObject(service), err)
			}
		}
	}

	return nil
}

// cloudControllerManager reads the configuration of a Deployment; it returns nil while its objects are
// being deleted.
func (s *Seed) cloudControllerManager(ctx context.Context, deployment *appsv1.Deployment) (*cloudControllerManager, error) {
	config := &corev1.ConfigMap{}
	secret := &corev1.Secret{}
	for name, object := range map[string]client.Object{"cloud-provider-config": config, "provider-cluster-cloud-controller-manager": secret} {
		if err := s.watched.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, object); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
	}

	ccm := &cloudControllerManager{seed: s, clusterName: clusterName(deployment)}
	if err := yaml.Unmarshal([]byte(config.Data["cloud-config"]), &ccm.config); err != nil {
		return nil, err
	}

	kubeconfig, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		return nil, err
	}

	for _, user := range kubeconfig.AuthInfos {
		user.TokenFile = ""
		user.Token = string(secret.Data["token"])
	}

	provider, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, err
	}

	ccm.provider, err = client.New(provider, client.Options{Scheme: providerScheme()})

	return ccm, err
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

func clusterName(deployment *appsv1.Deployment) string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, arg := range slices.Concat(container.Command, container.Args) {
			if name, found := strings.CutPrefix(arg, "--cluster-name="); found {
				return name
			}
		}
	}

	return ""
}

// reconcile creates or deletes the load balancer of a Service.
func (c *cloudControllerManager) reconcile(ctx context.Context, tenant *corev1.Service) error {
	balancer := &corev1.Service{}
	key := client.ObjectKey{Namespace: c.config.Namespace, Name: balancerName(tenant)}
	err := c.provider.Get(ctx, key, balancer)

	switch exists := err == nil; {
	case client.IgnoreNotFound(err) != nil:
		return err
	case tenant.DeletionTimestamp != nil && exists:
		return client.IgnoreNotFound(c.provider.Delete(ctx, balancer))
	case tenant.DeletionTimestamp != nil:
		controllerutil.RemoveFinalizer(tenant, cleanupFinalizer)

		return client.IgnoreNotFound(c.seed.Target.Update(ctx, tenant))
	case !exists:
		if controllerutil.AddFinalizer(tenant, cleanupFinalizer) {
			if err := c.seed.Target.Update(ctx, tenant); err != nil {
				return err
			}
		}

		return c.provider.Create(ctx, c.balancerOf(tenant, key))
	default:
		return c.report(ctx, tenant, balancer)
	}
}

// balancerName returns the name of a load balancer (k8s.io/cloud-provider, DefaultLoadBalancerName).
func balancerName(tenant *corev1.Service) string {
	const most = 32

	name := "a" + strings.ReplaceAll(string(tenant.UID), "-", "")

	return name[:min(len(name), most)]
}

func (c *cloudControllerManager) balancerOf(tenant *corev1.Service, key client.ObjectKey) *corev1.Service {
	balancer := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: tenant.Annotations, Labels: c.config.InfraLabels},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeLoadBalancer,
			ExternalTrafficPolicy: tenant.Spec.ExternalTrafficPolicy,
			Selector:              map[string]string{"cluster.x-k8s.io/role": "worker", "cluster.x-k8s.io/cluster-name": c.clusterName},
		},
	}
	for _, port := range tenant.Spec.Ports {
		balancer.Spec.Ports = append(balancer.Spec.Ports, corev1.ServicePort{
			Name:       port.Name,
			Protocol:   port.Protocol,
			Port:       port.Port,
			TargetPort: intstr.FromInt32(port.NodePort),
		})
	}

	return balancer
}

// report lets the provider cluster assign an address to a load balancer, and reports it to the tenant.
func (c *cloudControllerManager) report(ctx context.Context, tenant, balancer *corev1.Service) error {
	assigned := []corev1.LoadBalancerIngress{{IP: loadBalancerAddress}}

	if len(balancer.Status.LoadBalancer.Ingress) == 0 {
		balancer.Status.LoadBalancer.Ingress = assigned

		return client.IgnoreNotFound(c.seed.Provider.Status().Update(ctx, balancer))
	}

	if len(tenant.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}

	tenant.Status.LoadBalancer.Ingress = assigned

	return client.IgnoreNotFound(c.seed.Target.Status().Update(ctx, tenant))
}
