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

// Witness watches a shoot's machines and pods in all clusters, and records their changes.
type Witness struct {
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
func (s *Shoot) Watch(t *testing.T, events *Timeline, pools map[string]int32) *Witness {
	t.Helper()

	w := &Witness{
		Timeline: events, shoot: s, pools: pools, machines: map[string]*v1alpha1.Machine{}, away: map[string]int{},
		pods: map[string]*corev1.Pod{}, Ready: map[string]int{},
	}
	kubevirtAPI := s.KubeVirt.KubevirtV1()
	observe(t, s.MCM.MachineV1alpha1().Machines(s.Namespace), &v1alpha1.Machine{}, w.machine)
	observe(t, s.Target.CoreV1().Pods(s.Namespace), &corev1.Pod{}, w.pod)
	observe(t, s.Target.CoreV1().Events(s.Namespace), &corev1.Event{}, w.event)
	observe(t, kubevirtAPI.VirtualMachineInstances(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstance{},
		func(before, now *kubevirtv1.VirtualMachineInstance) { w.instance(t, before, now) })
	observe(t, kubevirtAPI.VirtualMachineInstanceMigrations(s.ProviderNamespace), &kubevirtv1.VirtualMachineInstanceMigration{}, w.migration)

	w.Mu.Lock()
	defer w.Mu.Unlock()

	w.telling = true

	return w
}

// tell adds an event to the timeline, except while the initial state is read. The caller holds the
// lock.
func (w *Witness) tell(who, format string, args ...any) {
	if w.telling {
		w.Add(who, format, args...)
	}
}

func (w *Witness) machine(before, now *v1alpha1.Machine) {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	const who = "MCM"

	switch {
	case now == nil:
		delete(w.machines, before.Name)
		w.tell(who, "%s is gone", before.Name)
	case before == nil:
		w.tell(who, "%s is created", now.Name)
	case before.DeletionTimestamp == nil && now.DeletionTimestamp != nil:
		w.deleted = append(w.deleted, now.Name)
		w.tell(who, "%s is to be deleted", now.Name)
	case !isAvailable(before) && isAvailable(now):
		w.tell(who, "%s is Running", now.Name)
	case isAvailable(before) && !isAvailable(now):
		w.tell(who, "%s is %s", now.Name, now.Status.CurrentStatus.Phase)
	}

	if now != nil {
		w.machines[now.Name] = now
	}

	w.countMachines()
}

func isAvailable(m *v1alpha1.Machine) bool {
	return m.DeletionTimestamp == nil && m.Status.CurrentStatus.Phase == v1alpha1.MachineRunning
}

func (w *Witness) countMachines() {
	if !w.telling {
		return
	}

	for pool, want := range w.pools {
		available := 0

		for _, m := range w.machines {
			if m.Labels["name"] == pool && isAvailable(m) {
				available++
			}
		}

		w.away[pool] = max(w.away[pool], int(want)-available)
	}
}

func (w *Witness) event(before, now *corev1.Event) {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	if now != nil && strings.HasPrefix(now.Reason, "Evacuation") && (before == nil || before.Count != now.Count) {
		w.tell("driver", "%s: %s", now.InvolvedObject.Name, now.Message)

		if now.Type != corev1.EventTypeNormal {
			w.warnings = append(w.warnings, now.Message)
		}
	}
}

func (w *Witness) migration(before, now *kubevirtv1.VirtualMachineInstanceMigration) {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	switch {
	case now == nil:
	case before == nil:
		w.tell("KubeVirt", "migration of %s is requested", now.Spec.VMIName)
	case before.Status.Phase != now.Status.Phase && now.IsFinal():
		w.tell("KubeVirt", "migration of %s has %s", now.Spec.VMIName, strings.ToLower(string(now.Status.Phase)))
	}
}

func (w *Witness) instance(t *testing.T, before, now *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	switch {
	case isRunning(before) && !isRunning(now):
		w.stopped(t, before)
	case isRunning(before):
		w.moved(before, now)
	case isRunning(now) && before != nil:
		w.Add("KubeVirt", "%s runs on %s", now.Name, now.Status.NodeName)
	}
}

func isRunning(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.Phase == kubevirtv1.Running && instance.DeletionTimestamp == nil
}

func (w *Witness) moved(before, now *kubevirtv1.VirtualMachineInstance) {
	if before.Status.EvacuationNodeName == "" && now.Status.EvacuationNodeName != "" {
		w.Add("KubeVirt", "%s is marked for evacuation from %s", now.Name, now.Status.EvacuationNodeName)
	}

	if before.Status.NodeName != now.Status.NodeName {
		w.Add("KubeVirt", "%s moved from %s to %s", now.Name, before.Status.NodeName, now.Status.NodeName)
	}
}

// stopped queries the target's API server for the pods that stop with the guest,
// since a watch might be late.
func (w *Witness) stopped(t *testing.T, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	pods, err := w.shoot.Target.CoreV1().Pods(w.shoot.Namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + instance.Name,
	})
	if t.Context().Err() != nil {
		return
	}

	w.Mu.Lock()
	defer w.Mu.Unlock()

	if err != nil {
		t.Error(err)

		return
	}

	w.tell("KubeVirt", "%s is shutting down, with %d pods on it", instance.Name, len(pods.Items))

	for i := range pods.Items {
		w.ends = append(w.ends, podEnd{pod: pods.Items[i].Name, node: instance.Name, killed: true})
	}
}

func (w *Witness) pod(before, now *corev1.Pod) {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	switch {
	case now == nil:
		delete(w.pods, before.Name)
		w.podEnded(before)
	case (before == nil || !isReadyPod(before)) && isReadyPod(now):
		w.tell("shoot", "pod %s is ready on %s", now.Name, now.Spec.NodeName)
	}

	if now != nil {
		w.pods[now.Name] = now
	}

	w.countPods()
}

func (w *Witness) podEnded(pod *corev1.Pod) {
	end := podEnd{pod: pod.Name, node: pod.Spec.NodeName}
	how := "no reason is recorded"

	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			end.evicted, how = c.Reason == "EvictionByEvictionAPI", c.Reason
		}
	}

	w.ends = append(w.ends, end)
	w.tell("shoot", "pod %s is gone from %s: %s", end.pod, end.node, how)
}

func isReadyPod(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}

	return false
}

func (w *Witness) countPods() {
	if !w.telling {
		return
	}

	ready := map[string]int{}

	for _, pod := range w.pods {
		ready[pod.Labels[appLabel]] += map[bool]int{true: 1}[isReadyPod(pod)]
	}

	for app, count := range ready {
		if fewest, known := w.Ready[app]; !known || count < fewest {
			w.Ready[app] = count
		}
	}
}

// RequireEvicted requires that at least this many pods ended, each by an eviction that the target's
// API server allowed before the pod's guest was told to shut down.
func (w *Witness) RequireEvicted(t *testing.T, least int) {
	t.Helper()

	w.Mu.Lock()
	defer w.Mu.Unlock()

	require.GreaterOrEqual(t, len(w.ends), least)

	for _, end := range w.ends {
		require.True(t, end.evicted && !end.killed, "%+v", end)
	}
}

// Killed returns the pods that were stopped with their guests.
func (w *Witness) Killed() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	var names []string

	for _, end := range w.ends {
		if end.killed {
			names = append(names, end.pod)
		}
	}

	return names
}

// RequireAtMostAway requires that no pool ever lacked more Machines than this.
func (w *Witness) RequireAtMostAway(t *testing.T, most int) {
	t.Helper()

	w.Mu.Lock()
	defer w.Mu.Unlock()

	for pool := range w.pools {
		require.LessOrEqual(t, w.away[pool], most, "%s: number of Machines that were unavailable at a time", pool)
	}
}

// RequireNoWarnings requires that the driver recorded no warnings.
func (w *Witness) RequireNoWarnings(t *testing.T) {
	t.Helper()

	w.Mu.Lock()
	defer w.Mu.Unlock()

	require.Empty(t, w.warnings)
}

// Deletions returns the Machines whose deletion began, in order.
func (w *Witness) Deletions() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()

	return slices.Clone(w.deleted)
}
