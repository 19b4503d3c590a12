// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// withSmallCache excludes managed fields, the content of other providers' objects, and kinds with many
// objects of which the controllers read only a few, from the manager's cache. Its account may not list
// the last two kinds: it reads the objects that its roles name.
func withSmallCache(options manager.Options) manager.Options {
	options.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{
		&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &appsv1.Deployment{}, &resourcesv1alpha1.ManagedResource{},
		&coordinationv1.Lease{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	}}
	options.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {
		Field:     fields.OneTermEqualSelector(metav1.ObjectNameField, v1beta1constants.SecretNameCloudProvider),
		Transform: withoutForeignCredentials,
	}}
	options.Cache.DefaultTransform = withoutForeignContent
	options.Cache.NewInformer = newInformer

	return options
}

// cacheBeforeReady makes the readiness of a manager wait for the objects that its webhooks read. Otherwise, the first requests
// to the webhooks would begin to list them, and fail if that takes long: Clusters may have a megabyte each.
func cacheBeforeReady(ctx context.Context, informers cache.Informers) error {
	for _, read := range []client.Object{&extensionsv1alpha1.Cluster{}, &extensionsv1alpha1.Infrastructure{}} {
		if _, err := informers.GetInformer(ctx, read, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("cache %T: %w", read, err)
		}
	}

	return nil
}

// withoutForeignContent drops the managed fields of an object, and the content of an object of another
// provider. The library's predicates see it, so that its name, type and last operation remain.
func withoutForeignContent(object any) (any, error) {
	strip := cache.TransformStripManagedFields()

	if o, ok := object.(extensionsv1alpha1.Object); ok && o.GetExtensionSpec().GetExtensionType() == kubevirt.Type {
		return strip(object)
	}

	switch o := object.(type) {
	case *extensionsv1alpha1.Cluster:
		dropForeignShoot(o)
	case *extensionsv1alpha1.Infrastructure:
		o.Spec = extensionsv1alpha1.InfrastructureSpec{DefaultSpec: reducedSpec(o.Spec.DefaultSpec)}
		o.Status = extensionsv1alpha1.InfrastructureStatus{DefaultStatus: reducedStatus(o.Status.DefaultStatus)}
	case *extensionsv1alpha1.ControlPlane:
		o.Spec = extensionsv1alpha1.ControlPlaneSpec{DefaultSpec: reducedSpec(o.Spec.DefaultSpec)}
		o.Status = extensionsv1alpha1.ControlPlaneStatus{DefaultStatus: reducedStatus(o.Status.DefaultStatus)}
	case *extensionsv1alpha1.Worker:
		o.Spec = extensionsv1alpha1.WorkerSpec{DefaultSpec: reducedSpec(o.Spec.DefaultSpec)}
		o.Status = extensionsv1alpha1.WorkerStatus{DefaultStatus: reducedStatus(o.Status.DefaultStatus)}
	case *extensionsv1alpha1.Bastion:
		o.Spec = extensionsv1alpha1.BastionSpec{DefaultSpec: reducedSpec(o.Spec.DefaultSpec)}
		o.Status = extensionsv1alpha1.BastionStatus{DefaultStatus: reducedStatus(o.Status.DefaultStatus)}
	case *machinev1alpha1.MachineClass:
		if o.Provider != kubevirt.Type {
			o.ProviderSpec = runtime.RawExtension{}
		}
	case *machinev1alpha1.Machine:
		dropForeignMachine(o)
	}

	return strip(object)
}

// withoutForeignCredentials drops the content of Secrets with the credentials of other infrastructures.
func withoutForeignCredentials(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		if _, has := secret.Data[providerspec.SecretKeyKubeconfig]; !has {
			secret.Data = nil
		}
	}

	return cache.TransformStripManagedFields()(object)
}

func reducedSpec(spec extensionsv1alpha1.DefaultSpec) extensionsv1alpha1.DefaultSpec {
	return extensionsv1alpha1.DefaultSpec{Type: spec.Type, Class: spec.Class}
}

func reducedStatus(status extensionsv1alpha1.DefaultStatus) extensionsv1alpha1.DefaultStatus {
	return extensionsv1alpha1.DefaultStatus{LastOperation: status.LastOperation, ObservedGeneration: status.ObservedGeneration}
}

// dropForeignMachine reduces a Machine of another provider. Before its driver has created it, the Machine does not say
// to which provider it belongs.
func dropForeignMachine(m *machinev1alpha1.Machine) {
	if id := m.Spec.ProviderID; id != "" && !strings.HasPrefix(id, kubevirt.Type+"://") {
		m.Spec = machinev1alpha1.MachineSpec{ProviderID: id, Class: m.Spec.Class}
		m.Status = machinev1alpha1.MachineStatus{}
	}
}

// reducedShoot is what remains of another provider's Shoot.
type reducedShoot struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Namespace string `json:"namespace,omitempty"`
		Name      string `json:"name,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Provider struct {
			Type string `json:"type,omitempty"`
		} `json:"provider"`
	} `json:"spec"`
}

// dropForeignShoot reduces a Cluster of another provider, whose CloudProfile may have a megabyte. It
// keeps what it cannot read. Only the Shoot is parsed, which is small.
func dropForeignShoot(c *extensionsv1alpha1.Cluster) {
	shoot := &reducedShoot{}
	if err := json.Unmarshal(c.Spec.Shoot.Raw, shoot); err != nil || shoot.Spec.Provider.Type == "" || shoot.Spec.Provider.Type == kubevirt.Type {
		return
	}

	if raw, err := json.Marshal(shoot); err == nil {
		c.Spec = extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Raw: raw}}
	}
}

// newInformer lists Clusters page by page. Without it, an API server that does not stream lists sends
// all of them in one response, whose bytes and objects would be in memory together.
func newInformer(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, ok := example.(*extensionsv1alpha1.Cluster); ok {
		from = &pagedClusters{ListerWatcher: from, from: toolscache.ToListerWatcherWithContext(from)}
	}

	return toolscache.NewSharedIndexInformer(from, example, resync, indexers)
}

// clustersPerPage is the number of Clusters that are decoded at the same time.
const clustersPerPage = 10

// pagedClusters lists Clusters page by page, and reduces each page before it reads the next one. The
// informer calls the methods with a context.
type pagedClusters struct {
	toolscache.ListerWatcher

	from toolscache.ListerWatcherWithContext
}

// WatchWithContext implements toolscache.WatcherWithContext.
func (p *pagedClusters) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return p.from.WatchWithContext(ctx, options)
}

// ListWithContext implements toolscache.ListerWithContext. An API server that is asked for a version
// answers from its cache, and ignores the limit.
func (p *pagedClusters) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	all := &extensionsv1alpha1.ClusterList{}
	options.ResourceVersion = ""
	options.ResourceVersionMatch = ""
	options.Limit = clustersPerPage

	for {
		page, err := p.from.ListWithContext(ctx, options)
		if err != nil {
			return nil, err
		}

		list, ok := page.(*extensionsv1alpha1.ClusterList)
		if !ok {
			return nil, fmt.Errorf("list Clusters: unexpected type %T", page)
		}

		for i := range list.Items {
			dropForeignShoot(&list.Items[i])
		}

		all.Items = append(all.Items, list.Items...)
		all.ListMeta = list.ListMeta

		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}
