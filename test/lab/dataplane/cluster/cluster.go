// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads the provider and the target cluster from informer caches, and writes them through clients.
//
// The simulated components share its caches. It must not depend on what they simulate.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

var errCacheNotSynced = errors.New("informer caches did not sync")

// Provider reads the provider cluster from informer caches and writes it through its client.
type Provider struct {
	Client     kubernetes.Interface
	Kubevirt   kubevirt.Interface
	Factory    informers.SharedInformerFactory
	Instances  cache.SharedIndexInformer
	Nodes      corelisters.NodeLister
	Pods       corelisters.PodLister
	Claims     corelisters.PersistentVolumeClaimLister
	Volumes    corelisters.PersistentVolumeLister
	Classes    storagelisters.StorageClassLister
	Namespaces corelisters.NamespaceLister
}

// NewProvider returns a provider cluster with unsynced caches.
func NewProvider(client kubernetes.Interface, kv kubevirt.Interface) *Provider {
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	return &Provider{
		Client:     client,
		Kubevirt:   kv,
		Factory:    factory,
		Instances:  newInstanceInformer(kv),
		Nodes:      core.Nodes().Lister(),
		Pods:       core.Pods().Lister(),
		Claims:     core.PersistentVolumeClaims().Lister(),
		Volumes:    core.PersistentVolumes().Lister(),
		Classes:    factory.Storage().V1().StorageClasses().Lister(),
		Namespaces: core.Namespaces().Lister(),
	}
}

// newInstanceInformer watches the VirtualMachineInstances of all namespaces.
func newInstanceInformer(kv kubevirt.Interface) cache.SharedIndexInformer {
	instances := kv.KubevirtV1().VirtualMachineInstances(metav1.NamespaceAll)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return instances.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return instances.Watch(ctx, o)
		},
	}
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return cache.NewSharedIndexInformer(source, &kubevirtv1.VirtualMachineInstance{}, 0, indexers)
}

// Sync waits for the caches to sync.
func (p *Provider) Sync(ctx context.Context) error {
	p.Factory.Start(ctx.Done())
	for kind, synced := range p.Factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%w: %v", errCacheNotSynced, kind)
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.Instances.HasSynced) {
		return fmt.Errorf("%w: VirtualMachineInstances", errCacheNotSynced)
	}
	return nil
}

// Instance returns a cached VirtualMachineInstance by its "namespace/name" key. Callers must copy
// it before they modify it.
func (p *Provider) Instance(key string) (*kubevirtv1.VirtualMachineInstance, error) {
	object, exists, err := p.Instances.GetIndexer().GetByKey(key)
	if err != nil {
		return nil, fmt.Errorf("read VirtualMachineInstance %s from cache: %w", key, err)
	}
	instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
	if !exists || !ok {
		return nil, apierrors.NewNotFound(kubevirtv1.Resource("virtualmachineinstances"), key)
	}
	return instance, nil
}

// LauncherPod returns the pod of a VirtualMachineInstance on its node, or nil. If a migration has
// returned the instance to an earlier node, it is the newest pod there.
func (p *Provider) LauncherPod(instance *kubevirtv1.VirtualMachineInstance) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range p.LauncherPods(instance) {
		onNode := pod.Spec.NodeName == instance.Status.NodeName
		if onNode && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest
}

// LauncherPods returns all launchers of a VirtualMachineInstance, including those that migrations
// use or have left behind.
func (p *Provider) LauncherPods(instance *kubevirtv1.VirtualMachineInstance) []*corev1.Pod {
	selector := labels.SelectorFromSet(labels.Set{kubevirtv1.CreatedByLabel: string(instance.UID)})
	pods, err := p.Pods.Pods(instance.Namespace).List(selector)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !IsLauncher(pod) })
}

// TargetPod returns the target launcher of a migration, or nil.
func (p *Provider) TargetPod(instance *kubevirtv1.VirtualMachineInstance) *corev1.Pod {
	pod, err := p.Pods.Pods(instance.Namespace).Get(instance.Status.MigrationState.TargetPod)
	if err != nil {
		return nil
	}
	return pod
}

// NodeUp reports whether a provider Node exists and is up.
func (p *Provider) NodeUp(name string) bool {
	node, err := p.Nodes.Get(name)
	return err == nil && !behaviour.IsDown(node)
}

// BootedAt returns when a provider Node has booted again, or the zero time.
func (p *Provider) BootedAt(name string) time.Time {
	node, err := p.Nodes.Get(name)
	if err != nil {
		return time.Time{}
	}
	return behaviour.BootedAt(node)
}

// Target reads the Nodes and pods of the target cluster from informer caches and
// writes through its client.
type Target struct {
	Client  kubernetes.Interface
	Factory informers.SharedInformerFactory
	Nodes   corelisters.NodeLister
	Pods    corelisters.PodLister
}

// NewTarget returns a target cluster with unsynced caches.
func NewTarget(client kubernetes.Interface) *Target {
	factory := informers.NewSharedInformerFactory(client, 0)
	return &Target{
		Client:  client,
		Factory: factory,
		Nodes:   factory.Core().V1().Nodes().Lister(),
		Pods:    factory.Core().V1().Pods().Lister(),
	}
}

// Sync waits for the caches to sync.
func (t *Target) Sync(ctx context.Context) error {
	t.Factory.Start(ctx.Done())
	for kind, synced := range t.Factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%w: target %v", errCacheNotSynced, kind)
		}
	}
	return nil
}

// launcherLabelValue is the value of KubeVirt's label for launcher pods.
const launcherLabelValue = "virt-launcher"

// IsLauncher reports whether a pod runs a VirtualMachineInstance, unlike temporary pods that only
// trigger the binding of a volume.
func IsLauncher(pod *corev1.Pod) bool {
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return pod.Labels[kubevirtv1.AppLabel] == launcherLabelValue && !temporary
}
