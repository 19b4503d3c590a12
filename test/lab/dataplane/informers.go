package dataplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
)

var errCacheNotSynced = errors.New("informer caches did not sync")

// providerCluster reads the provider cluster from informer caches and writes it through its client.
type providerCluster struct {
	client     kubernetes.Interface
	kubevirt   kubevirt.Interface
	factory    informers.SharedInformerFactory
	instances  cache.SharedIndexInformer
	nodes      corelisters.NodeLister
	pods       corelisters.PodLister
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	classes    storagelisters.StorageClassLister
	namespaces corelisters.NamespaceLister
}

// newProviderCluster returns a provider cluster with unsynced caches.
func newProviderCluster(client kubernetes.Interface, kv kubevirt.Interface) *providerCluster {
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	return &providerCluster{
		client:     client,
		kubevirt:   kv,
		factory:    factory,
		instances:  newInstanceInformer(kv),
		nodes:      core.Nodes().Lister(),
		pods:       core.Pods().Lister(),
		claims:     core.PersistentVolumeClaims().Lister(),
		volumes:    core.PersistentVolumes().Lister(),
		classes:    factory.Storage().V1().StorageClasses().Lister(),
		namespaces: core.Namespaces().Lister(),
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

// sync waits for the caches to sync.
func (p *providerCluster) sync(ctx context.Context) error {
	p.factory.Start(ctx.Done())
	for kind, synced := range p.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%w: %v", errCacheNotSynced, kind)
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.instances.HasSynced) {
		return fmt.Errorf("%w: VirtualMachineInstances", errCacheNotSynced)
	}
	return nil
}

// instance returns a cached VirtualMachineInstance by its "namespace/name" key. Callers must copy
// it before they modify it.
func (p *providerCluster) instance(key string) (*kubevirtv1.VirtualMachineInstance, error) {
	object, exists, err := p.instances.GetIndexer().GetByKey(key)
	if err != nil {
		return nil, fmt.Errorf("read VirtualMachineInstance %s from cache: %w", key, err)
	}
	instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
	if !exists || !ok {
		return nil, apierrors.NewNotFound(kubevirtv1.Resource("virtualmachineinstances"), key)
	}
	return instance, nil
}

// launcherPod returns the pod of a VirtualMachineInstance on its node, or nil. If a migration has
// returned the instance to an earlier node, it is the newest pod there.
func (p *providerCluster) launcherPod(instance *kubevirtv1.VirtualMachineInstance) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range p.launcherPods(instance) {
		onNode := pod.Spec.NodeName == instance.Status.NodeName
		if onNode && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest
}

// launcherPods returns all launchers of a VirtualMachineInstance, including those that migrations
// use or have left behind.
func (p *providerCluster) launcherPods(instance *kubevirtv1.VirtualMachineInstance) []*corev1.Pod {
	selector := labels.SelectorFromSet(labels.Set{kubevirtv1.CreatedByLabel: string(instance.UID)})
	pods, err := p.pods.Pods(instance.Namespace).List(selector)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !isLauncher(pod) })
}

// targetPod returns the target launcher of a migration, or nil.
func (p *providerCluster) targetPod(instance *kubevirtv1.VirtualMachineInstance) *corev1.Pod {
	pod, err := p.pods.Pods(instance.Namespace).Get(instance.Status.MigrationState.TargetPod)
	if err != nil {
		return nil
	}
	return pod
}

// nodeUp reports whether a provider Node exists and is up.
func (p *providerCluster) nodeUp(name string) bool {
	node, err := p.nodes.Get(name)
	return err == nil && !isDown(node)
}

// targetCluster reads the Nodes and pods of the target cluster from informer caches and
// writes through its client.
type targetCluster struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	nodes   corelisters.NodeLister
	pods    corelisters.PodLister
}

// newTargetCluster returns a target cluster with unsynced caches.
func newTargetCluster(client kubernetes.Interface) *targetCluster {
	factory := informers.NewSharedInformerFactory(client, 0)
	return &targetCluster{
		client:  client,
		factory: factory,
		nodes:   factory.Core().V1().Nodes().Lister(),
		pods:    factory.Core().V1().Pods().Lister(),
	}
}

// sync waits for the caches to sync.
func (t *targetCluster) sync(ctx context.Context) error {
	t.factory.Start(ctx.Done())
	for kind, synced := range t.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%w: target %v", errCacheNotSynced, kind)
		}
	}
	return nil
}

// launcherLabelValue is the value of KubeVirt's label for launcher pods.
const launcherLabelValue = "virt-launcher"

// isLauncher reports whether a pod runs a VirtualMachineInstance, unlike temporary pods that only
// trigger the binding of a volume.
func isLauncher(pod *corev1.Pod) bool {
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return pod.Labels[kubevirtv1.AppLabel] == launcherLabelValue && !temporary
}
