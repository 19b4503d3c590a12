// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Observer watches a shoot's machines and pods in all clusters, and records their changes.
type Observer struct {
	*Timeline

	shoot *Shoot
	pools map[string]int32 // wanted number of Machines of each pool

	Mu       sync.Mutex
	telling  bool // false until the initial state has been seen
	machines map[string]*v1alpha1.Machine
	deleted  []string       // Machines whose deletion began
	warnings []string       // of the driver
	away     map[string]int // maximum number of a pool's Machines that were unavailable at a time
	pods     map[string]*corev1.Pod
	Ready    map[string]int // minimum number of an application's pods that were ready at a time
	ends     []podEnd
}

// podEnd describes how a shoot's pod ended.
type podEnd struct {
	pod, node string
	// evicted means that the target's API server allowed its eviction.
	evicted bool
	// killed means that the pod still existed when its guest was told to shut down.
	killed bool
}

// Watch starts when the shoot is in its wanted state.
func (s *Shoot) Watch(t *testing.T, events *Timeline, pools map[string]int32) *Observer {
	t.Helper()

	o := &Observer{
		Timeline: events,
		shoot:    s,
		pools:    pools,
		machines: map[string]*v1alpha1.Machine{},
		away:     map[string]int{},
		pods:     map[string]*corev1.Pod{},
		Ready:    map[string]int{},
	}
	kubevirtAPI := s.KubeVirt.KubevirtV1()
	observe(t, s.MCM.MachineV1alpha1().Machines(s.Namespace), &v1alpha1.Machine{}, o.machine)
	observe(t, s.Target.CoreV1().Pods(s.Namespace), &corev1.Pod{}, o.pod)
	observe(t, s.Target.CoreV1().Events(s.Namespace), &corev1.Event{}, o.event)
	observe(t, kubevirtAPI.VirtualMachineInstances(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstance{},
		func(before, now *kubevirtv1.VirtualMachineInstance) { o.instance(t, before, now) })
	observe(t, kubevirtAPI.VirtualMachineInstanceMigrations(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstanceMigration{}, o.migration)

	o.Mu.Lock()
	defer o.Mu.Unlock()

	o.telling = true

	return o
}

// tell adds an event to the timeline, except while the initial state is read. The caller holds the
// lock.
func (o *Observer) tell(who, format string, args ...any) {
	if o.telling {
		o.Add(who, format, args...)
	}
}

func (o *Observer) machine(before, now *v1alpha1.Machine) {
	o.Mu.Lock()
	defer o.Mu.Unlock()

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
	case !isAvailable(before) && isAvailable(now):
		o.tell(who, "%s is Running", now.Name)
	case isAvailable(before) && !isAvailable(now):
		o.tell(who, "%s is %s", now.Name, now.Status.CurrentStatus.Phase)
	}

	if now != nil {
		o.machines[now.Name] = now
	}

	o.countMachines()
}

// isAway reports whether a Machine is missing from its pool. One whose heartbeats are only late is not.
func isAway(m *v1alpha1.Machine) bool {
	late := m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineUnknown && isSilent(m)

	return !isAvailable(m) && !late
}

func isAvailable(m *v1alpha1.Machine) bool {
	return m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning
}

func (o *Observer) countMachines() {
	if !o.telling {
		return
	}

	for pool, want := range o.pools {
		present := 0

		for _, m := range o.machines {
			if m.Labels["name"] == pool && !isAway(m) {
				present++
			}
		}

		o.away[pool] = max(o.away[pool], int(want)-present)
	}
}

func (o *Observer) event(before, now *corev1.Event) {
	o.Mu.Lock()
	defer o.Mu.Unlock()

	if now != nil && strings.HasPrefix(now.Reason, "Evacuation") && (before == nil || before.Count != now.Count) {
		o.tell("driver", "%s: %s", now.InvolvedObject.Name, now.Message)

		if now.Type != corev1.EventTypeNormal {
			o.warnings = append(o.warnings, now.Message)
		}
	}
}

func (o *Observer) migration(before, now *kubevirtv1.VirtualMachineInstanceMigration) {
	o.Mu.Lock()
	defer o.Mu.Unlock()

	switch {
	case now == nil:
	case before == nil:
		o.tell("KubeVirt", "migration of %s is requested", now.Spec.VMIName)
	case before.Status.Phase != now.Status.Phase && now.IsFinal():
		o.tell("KubeVirt", "migration of %s has %s", now.Spec.VMIName, strings.ToLower(string(now.Status.Phase)))
	}
}

func (o *Observer) instance(t *testing.T, before, now *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	switch {
	case isRunning(before) && !isRunning(now):
		o.stopped(t, before)
	case isRunning(before):
		o.moved(before, now)
	case isRunning(now) && before != nil:
		o.Add("KubeVirt", "%s runs on %s", now.Name, now.Status.NodeName)
	}
}

func isRunning(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.Phase == kubevirtv1.Running && instance.DeletionTimestamp == nil
}

func (o *Observer) moved(before, now *kubevirtv1.VirtualMachineInstance) {
	if before.Status.EvacuationNodeName == "" && now.Status.EvacuationNodeName != "" {
		o.Add("KubeVirt", "%s is marked for evacuation from %s", now.Name, now.Status.EvacuationNodeName)
	}

	if before.Status.NodeName != now.Status.NodeName {
		o.Add("KubeVirt", "%s moved from %s to %s", now.Name, before.Status.NodeName, now.Status.NodeName)
	}
}

// stopped queries the target's API server for the pods that stop with the guest,
// since a watch might be late.
func (o *Observer) stopped(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	pods, err := o.shoot.Target.CoreV1().Pods(o.shoot.Namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + instance.Name,
	})
	if t.Context().Err() != nil {
		return
	}

	o.Mu.Lock()
	defer o.Mu.Unlock()

	if err != nil {
		t.Error(err)

		return
	}

	o.tell("KubeVirt", "%s is shutting down, with %d pods on it", instance.Name, len(pods.Items))

	for i := range pods.Items {
		o.ends = append(o.ends, podEnd{pod: pods.Items[i].Name, node: instance.Name, killed: true})
	}
}

func (o *Observer) pod(before, now *corev1.Pod) {
	o.Mu.Lock()
	defer o.Mu.Unlock()

	switch {
	case now == nil:
		delete(o.pods, before.Name)
		o.podEnded(before)
	case (before == nil || !isReadyPod(before)) && isReadyPod(now):
		o.tell("shoot", "pod %s is ready on %s", now.Name, now.Spec.NodeName)
	}

	if now != nil {
		o.pods[now.Name] = now
	}

	o.countPods()
}

func (o *Observer) podEnded(pod *corev1.Pod) {
	end := podEnd{pod: pod.Name, node: pod.Spec.NodeName}
	how := "no reason is recorded"

	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			end.evicted = c.Reason == "EvictionByEvictionAPI"
			how = c.Reason
		}
	}

	o.ends = append(o.ends, end)
	o.tell("shoot", "pod %s is gone from %s: %s", end.pod, end.node, how)
}

func isReadyPod(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}

	return false
}

func (o *Observer) countPods() {
	if !o.telling {
		return
	}

	ready := map[string]int{}

	for _, pod := range o.pods {
		ready[pod.Labels[appLabel]] += map[bool]int{true: 1}[isReadyPod(pod)]
	}

	for app, count := range ready {
		if fewest, known := o.Ready[app]; !known || count < fewest {
			o.Ready[app] = count
		}
	}
}

// RequireEvicted requires that at least this many pods ended, each by an eviction that the target's
// API server allowed before the pod's guest was told to shut down.
func (o *Observer) RequireEvicted(t *testing.T, least int) {
	t.Helper()

	o.Mu.Lock()
	defer o.Mu.Unlock()

	require.GreaterOrEqual(t, len(o.ends), least)

	for _, end := range o.ends {
		require.True(t, end.evicted && !end.killed, "%+v", end)
	}
}

// Killed returns the pods that were stopped with their guests.
func (o *Observer) Killed() []string {
	o.Mu.Lock()
	defer o.Mu.Unlock()

	var names []string

	for _, end := range o.ends {
		if end.killed {
			names = append(names, end.pod)
		}
	}

	return names
}

// RequireAtMostAway requires that no pool ever lacked more Machines than this.
func (o *Observer) RequireAtMostAway(t *testing.T, most int) {
	t.Helper()

	o.Mu.Lock()
	defer o.Mu.Unlock()

	for pool := range o.pools {
		require.LessOrEqual(t, o.away[pool], most, "%s: number of Machines that were unavailable at a time", pool)
	}
}

// RequireBudgetsKept requires that no application ever lacked more than the one pod that its
// PodDisruptionBudget allows.
func (o *Observer) RequireBudgetsKept(t *testing.T, apps ...Application) {
	t.Helper()

	o.Mu.Lock()
	defer o.Mu.Unlock()

	for _, app := range apps {
		require.GreaterOrEqual(t, o.Ready[app.Name], int(app.Replicas)-1, "%s: minimum number of ready pods", app.Name)
	}
}

// RequireNoWarnings requires that the driver recorded no warnings.
func (o *Observer) RequireNoWarnings(t *testing.T) {
	t.Helper()

	o.Mu.Lock()
	defer o.Mu.Unlock()

	require.Empty(t, o.warnings)
}

// Deletions returns the Machines whose deletion began, in order.
func (o *Observer) Deletions() []string {
	o.Mu.Lock()
	defer o.Mu.Unlock()

	return slices.Clone(o.deleted)
}
