// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

// Observe passes the changes of the shoot's machines, and of the pods in its namespace default, to an observer until end is called.
// It returns when the observer has seen what exists.
func (s *Botanist) Observe(ctx context.Context, o *observer.Observer) (end func() error, _ error) {
	type handlers map[client.Object]toolscache.ResourceEventHandler

	var ends []func() error

	end = func() error {
		var failed error
		for _, end := range ends {
			failed = errors.Join(failed, end())
		}

		return failed
	}

	for _, c := range []struct {
		config    *rest.Config
		scheme    *runtime.Scheme
		namespace string
		handlers  handlers
	}{
		{s.seed.seedConfig, kubernetes.SeedScheme, s.Namespace, handlers{
			&machinev1alpha1.Machine{}: observer.Handler(o.Machine),
			&corev1.Event{}:            observer.Handler(o.Event),
		}},
		{s.seed.providerConfig, providerScheme(), s.ProviderNamespace, handlers{
			&kubevirtv1.VirtualMachineInstance{}:          observer.Handler(o.Instance),
			&kubevirtv1.VirtualMachineInstanceMigration{}: observer.Handler(o.Migration),
		}},
		{s.seed.targetConfig, kubernetes.ShootScheme, metav1.NamespaceDefault, handlers{&corev1.Pod{}: observer.Handler(o.Pod)}},
	} {
		watched, endWatches, err := startCache(ctx, c.config, cache.Options{Scheme: c.scheme, DefaultNamespaces: map[string]cache.Config{c.namespace: {}}})
		if err != nil {
			return nil, errors.Join(err, end())
		}

		ends = append(ends, endWatches)

		for object, handler := range c.handlers {
			if err := handle(ctx, watched, object, handler); err != nil {
				return nil, errors.Join(err, end())
			}
		}
	}

	o.Begin()

	return end, nil
}

// handle adds a handler for changes, and waits until it has been called for what exists.
func handle(ctx context.Context, watched cache.Cache, object client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := watched.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watch %T: %w", object, err)
	}

	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %T: %w", object, err)
	}

	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watch %T: %w", object, ctx.Err())
	}

	return nil
}

// startCache starts a cache. Its watches begin with the first read of a kind, and end when end is called.
func startCache(ctx context.Context, config *rest.Config, options cache.Options) (_ cache.Cache, end func() error, _ error) {
	watched, err := cache.New(config, options)
	if err != nil {
		return nil, nil, fmt.Errorf("watch a cluster: %w", err)
	}

	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)

	go func() { ended <- watched.Start(lifetime) }()

	end = sync.OnceValue(func() error {
		cancel()

		return <-ended
	})

	if !watched.WaitForCacheSync(ctx) {
		return nil, nil, errors.Join(fmt.Errorf("watch a cluster: %w", ctx.Err()), end())
	}

	return watched, end, nil
}
