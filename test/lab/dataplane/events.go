// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/guest"
)

// watch connects the informers' events to the work queues.
func (p *parts) watch() error {
	core, target := p.provider.Factory.Core().V1(), p.target.Factory.Core().V1()
	handlers := []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Nodes().Informer(), p.nodeEvents()},
		{core.Namespaces().Informer(), p.namespaceEvents()},
		{core.Pods().Informer(), everyEvent(p.podChanged)},
		{core.PersistentVolumeClaims().Informer(), everyEvent(p.claims.enqueue)},
		{core.PersistentVolumes().Informer(), everyEvent(p.volumes.enqueue)},
		{p.provider.Instances, everyEvent(p.instanceChanged)},
		{target.Nodes().Informer(), p.targetNodeEvents()},
		{target.Pods().Informer(), everyEvent(p.guestPods.enqueue)},
	}
	for _, h := range handlers {
		if _, err := h.informer.AddEventHandler(h.handler); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	p.provider.Factory.Storage().V1().StorageClasses().Informer()
	return nil
}

// everyEvent returns a handler that calls changed with the object of every event.
func everyEvent(changed func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: changed,
	}
}

// podChanged enqueues the pod and, for a launcher, its VirtualMachineInstance.
func (p *parts) podChanged(object any) {
	p.pods.enqueue(object)
	pod, ok := existing(object).(*corev1.Pod)
	if !ok || !cluster.IsLauncher(pod) {
		return
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		p.handler.queue.Add(pod.Namespace + "/" + owner.Name)
	}
}

// instanceChanged enqueues the instance for virt-handler and the guest, and its launcher pods.
func (p *parts) instanceChanged(object any) {
	p.handler.enqueue(object)
	p.guestNodes.enqueue(object)
	instance, ok := existing(object).(*kubevirtv1.VirtualMachineInstance)
	if !ok {
		return
	}
	for _, pod := range p.provider.LauncherPods(instance) {
		p.pods.enqueue(pod)
	}
}

// nodeEvents passes on the changes of nodes, of which the first is from none.
func (p *parts) nodeEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.nodeChanged(&corev1.Node{}, object) },
		UpdateFunc: p.nodeChanged,
		DeleteFunc: p.nodes.enqueue,
	}
}

// nodeChanged enqueues a node after its agent has noted the change and, when it goes down or comes back, everything on it.
func (p *parts) nodeChanged(former, object any) {
	before, isNode := former.(*corev1.Node)
	after, isStillNode := object.(*corev1.Node)
	if !isNode || !isStillNode {
		return
	}
	p.agent.NoteChange(before, after)
	p.nodes.enqueue(after)
	if behaviour.IsDown(before) != behaviour.IsDown(after) || behaviour.BootedAt(before) != behaviour.BootedAt(after) {
		p.wake(func(node string) bool { return node == after.Name }, metav1.NamespaceAll)
	}
}

// namespaceEvents enqueues everything in a namespace whose annotations change.
func (p *parts) namespaceEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(former, object any) {
			before, isNamespace := former.(*corev1.Namespace)
			after, isStillNamespace := object.(*corev1.Namespace)
			if isNamespace && isStillNamespace && !maps.Equal(before.Annotations, after.Annotations) {
				p.wake(func(string) bool { return true }, after.Name)
			}
		},
	}
}

// wake enqueues the pods and instances of a namespace that are on certain nodes, and all its
// claims. An empty namespace means all namespaces.
func (p *parts) wake(node func(name string) bool, namespace string) {
	pods, err := p.provider.Pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range pods {
		if node(pod.Spec.NodeName) {
			p.podChanged(pod)
		}
	}
	for _, object := range p.provider.Instances.GetStore().List() {
		instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
		if ok && node(instance.Status.NodeName) && (namespace == "" || namespace == instance.Namespace) {
			p.instanceChanged(instance)
		}
	}
	claims, err := p.provider.Claims.PersistentVolumeClaims(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, claim := range claims {
		p.claims.enqueue(claim)
	}
}

// targetNodeEvents enqueues the guest of a target Node and its pods, and
// records the Node's deletion.
func (p *parts) targetNodeEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    p.targetNodeChanged,
		UpdateFunc: func(_, object any) { p.targetNodeChanged(object) },
		DeleteFunc: func(object any) {
			if node, ok := existing(object).(*corev1.Node); ok {
				p.guests.NoteRemoval(node)
			}
			p.targetNodeChanged(object)
		},
	}
}

// targetNodeChanged enqueues the guest of a target Node and the pods bound to it.
func (p *parts) targetNodeChanged(object any) {
	node, ok := existing(object).(*corev1.Node)
	if !ok || node.Annotations[guest.InstanceAnnotation] == "" {
		return
	}
	p.guestNodes.queue.Add(node.Annotations[guest.InstanceAnnotation])
	pods, err := p.target.Pods.List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == node.Name {
			p.guestPods.enqueue(pod)
		}
	}
}

// existing unwraps the tombstone of a missed deletion.
func existing(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}
