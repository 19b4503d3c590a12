// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package observer observes the machines and pods of a shoot in all clusters, and tells what happens to them, such as during the
// drain of a provider node.
//
// The harness of the integration tests and the demonstration of the extension pass it the changes that their watches see. It must
// not know how clusters are watched, nor that there are tests.
package observer

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// AppLabel is the label with the application of a shoot's pod.
const AppLabel = "app"

// Options configure an Observer.
type Options struct {
	// Pools has the wanted number of Machines of each MachineDeployment.
	Pools map[string]int32
	// Tell receives an actor and its action.
	Tell func(who, what string)
	// PodsOn reads the pods on a Node from the API server, since a watch might be late. The caller reports its errors.
	PodsOn func(node string) ([]corev1.Pod, error)
}

// Observer records the changes of a shoot's machines and pods. Its methods for changes are called for one change of a kind at a
// time; the state before a creation and the state after a deletion are nil.
type Observer struct {
	options Options

	mu       sync.Mutex
	begun    bool
	machines map[string]*v1alpha1.Machine
	deleted  []string
	warnings []string
	away     map[string]int // maximum number of a pool's Machines that were unavailable at a time
	pods     map[string]*corev1.Pod
	fewest   map[string]int // minimum number of an application's pods that were ready at a time
	ends     []End
}

// End is the end of a shoot's pod.
type End struct {
	Pod, Node string
	// Evicted means that the shoot's API server allowed its eviction.
	Evicted bool
	// Killed means that the pod still existed when its guest was told to shut down.
	Killed bool
}

// New returns an Observer that tells nothing before Begin.
func New(o Options) *Observer {
	return &Observer{
		options:  o,
		machines: map[string]*v1alpha1.Machine{},
		away:     map[string]int{},
		pods:     map[string]*corev1.Pod{},
		fewest:   map[string]int{},
	}
}

// Begin is called when the initial state has been passed, in which the shoot is as wanted.
func (o *Observer) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.begun = true
}

// Handler returns a handler for a watch that calls a method of an Observer.
func Handler[T any](changed func(before, now *T)) cache.ResourceEventHandler {
	object := func(o any) *T {
		if tombstone, missed := o.(cache.DeletedFinalStateUnknown); missed {
			o = tombstone.Obj
		}

		typed, _ := o.(*T)

		return typed
	}

	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(nil, object(o)) },
		UpdateFunc: func(before, now any) { changed(object(before), object(now)) },
		DeleteFunc: func(o any) { changed(object(o), nil) },
	}
}

// tell requires the lock.
func (o *Observer) tell(who, format string, args ...any) {
	if o.begun {
		o.options.Tell(who, fmt.Sprintf(format, args...))
	}
}

// Machine observes a change of a Machine.
func (o *Observer) Machine(before, now *v1alpha1.Machine) {
	o.mu.Lock()
	defer o.mu.Unlock()

	const who = "MCM"

	switch {
	case now == nil:
		delete(o.machines, before.Name)
		o.tell(who, "%s is gone", before.Name)
	case before == nil:
		o.tell(who, "%s is created", now.Name)
	case before.DeletionTimestamp == nil && now.DeletionTimestamp != nil:
		o.deleted = append(o.deleted, now.Name)
		o.tell(who, "%s is to be deleted", now.Name)
	case !IsAvailable(before) && IsAvailable(now):
		o.tell(who, "%s is Running", now.Name)
	case IsAvailable(before) && !IsAvailable(now):
		o.tell(who, "%s is %s", now.Name, now.Status.CurrentStatus.Phase)
	}

	if now != nil {
		o.machines[now.Name] = now
	}

	o.countMachines()
}

// isAway reports whether a Machine is missing from its pool. One whose heartbeats are only late is not.
func isAway(m *v1alpha1.Machine) bool {
	late := m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineUnknown && IsSilent(m)

	return !IsAvailable(m) && !late
}

// IsSilent reports whether the kubelet of a Machine's Node sends no heartbeats.
func IsSilent(m *v1alpha1.Machine) bool {
	return slices.ContainsFunc(m.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// IsAvailable reports whether a Machine is Running, and is not being deleted.
func IsAvailable(m *v1alpha1.Machine) bool {
	return m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning
}

// countMachines requires the lock.
func (o *Observer) countMachines() {
	if !o.begun {
		return
	}

	for pool, wanted := range o.options.Pools {
		present := 0

		for _, m := range o.machines {
			if m.Labels["name"] == pool && !isAway(m) {
				present++
			}
		}

		o.away[pool] = max(o.away[pool], int(wanted)-present)
	}
}

// Event observes a change of an Event, of which it tells those of the driver.
func (o *Observer) Event(before, now *corev1.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if now != nil && strings.HasPrefix(now.Reason, "Evacuation") && (before == nil || before.Count != now.Count) {
		o.tell("driver", "%s: %s", now.InvolvedObject.Name, now.Message)

		if now.Type != corev1.EventTypeNormal {
			o.warnings = append(o.warnings, now.Message)
		}
	}
}

// Migration observes a change of a live migration.
func (o *Observer) Migration(before, now *kubevirtv1.VirtualMachineInstanceMigration) {
	o.mu.Lock()
	defer o.mu.Unlock()

	switch {
	case now == nil:
	case before == nil:
		o.tell("KubeVirt", "migration of %s is requested", now.Spec.VMIName)
	case before.Status.Phase != now.Status.Phase && now.IsFinal():
		o.tell("KubeVirt", "migration of %s has %s", now.Spec.VMIName, strings.ToLower(string(now.Status.Phase)))
	}
}

// Instance observes a change of a guest.
func (o *Observer) Instance(before, now *kubevirtv1.VirtualMachineInstance) {
	var left []corev1.Pod

	stops := isRunning(before) && !isRunning(now)
	if stops {
		pods, err := o.options.PodsOn(before.Name)
		if err != nil {
			return
		}

		left = pods
	}

	o.mu.Lock()
	defer o.mu.Unlock()

	switch {
	case stops:
		o.stopped(before, left)
	case isRunning(before):
		o.moved(before, now)
	case isRunning(now) && before != nil:
		o.tell("KubeVirt", "%s runs on %s", now.Name, now.Status.NodeName)
	}
}

func isRunning(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.Phase == kubevirtv1.Running && instance.DeletionTimestamp == nil
}

// moved requires the lock.
func (o *Observer) moved(before, now *kubevirtv1.VirtualMachineInstance) {
	if before.Status.EvacuationNodeName == "" && now.Status.EvacuationNodeName != "" {
		o.tell("KubeVirt", "%s is marked for evacuation from %s", now.Name, now.Status.EvacuationNodeName)
	}

	if before.Status.NodeName != now.Status.NodeName {
		o.tell("KubeVirt", "%s moved from %s to %s", now.Name, before.Status.NodeName, now.Status.NodeName)
	}
}

// stopped requires the lock.
func (o *Observer) stopped(instance *kubevirtv1.VirtualMachineInstance, pods []corev1.Pod) {
	o.tell("KubeVirt", "%s is shutting down, with %d pods on it", instance.Name, len(pods))

	for i := range pods {
		o.ends = append(o.ends, End{Pod: pods[i].Name, Node: instance.Name, Killed: true})
	}
}

// Pod observes a change of a pod of the shoot.
func (o *Observer) Pod(before, now *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()

	switch {
	case now == nil:
		delete(o.pods, before.Name)
		o.podEnded(before)
	case (before == nil || !isReady(before)) && isReady(now):
		o.tell("shoot", "pod %s is ready on %s", now.Name, now.Spec.NodeName)
	}

	if now != nil {
		o.pods[now.Name] = now
	}

	o.countPods()
}

// podEnded requires the lock.
func (o *Observer) podEnded(pod *corev1.Pod) {
	end := End{Pod: pod.Name, Node: pod.Spec.NodeName}
	how := "no reason is recorded"

	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			end.Evicted = c.Reason == "EvictionByEvictionAPI"
			how = c.Reason
		}
	}

	o.ends = append(o.ends, end)
	o.tell("shoot", "pod %s is gone from %s: %s", end.Pod, end.Node, how)
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// countPods requires the lock.
func (o *Observer) countPods() {
	if !o.begun {
		return
	}

	for app, ready := range o.readyPods() {
		if fewest, known := o.fewest[app]; !known || ready < fewest {
			o.fewest[app] = ready
		}
	}
}

// readyPods requires the lock.
func (o *Observer) readyPods() map[string]int {
	ready := map[string]int{}

	for _, pod := range o.pods {
		ready[pod.Labels[AppLabel]] += map[bool]int{true: 1}[isReady(pod)]
	}

	return ready
}

// Ready returns the number of an application's pods that are ready, and the minimum of those that were ready at a time since the
// first change.
func (o *Observer) Ready(app string) (now, fewest int) {
	o.mu.Lock()
	defer o.mu.Unlock()

	now = o.readyPods()[app]

	fewest, changed := o.fewest[app]
	if !changed {
		fewest = now
	}

	return now, fewest
}

// Away returns the maximum number of a pool's Machines that were unavailable at a time.
func (o *Observer) Away(pool string) int {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.away[pool]
}

// Ends returns the ends of pods, in order.
func (o *Observer) Ends() []End {
	o.mu.Lock()
	defer o.mu.Unlock()

	return slices.Clone(o.ends)
}

// Deletions returns the Machines whose deletion began, in order.
func (o *Observer) Deletions() []string {
	o.mu.Lock()
	defer o.mu.Unlock()

	return slices.Clone(o.deleted)
}

// Warnings returns the warnings of the driver.
func (o *Observer) Warnings() []string {
	o.mu.Lock()
	defer o.mu.Unlock()

	return slices.Clone(o.warnings)
}
