// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// machine returns a Machine of the pool.
func machine(name string, phase v1alpha1.MachinePhase) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": "pool"}}}
	m.Status.CurrentStatus.Phase = phase

	return m
}

// pod returns a pod of the application.
func pod(name string, status corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{AppLabel: "web"}},
		Spec:       corev1.PodSpec{NodeName: "old"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func deleted[T any, P interface {
	*T
	SetDeletionTimestamp(now *metav1.Time)
}](object P) P {
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)

	return object
}

func instance(node string) *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: node},
	}
}

// begin returns an observer of a pool with one machine and of an application with two pods, and the lines that it tells.
func begin(podsOn func(string) ([]corev1.Pod, error)) (*Observer, *[]string) {
	var told []string

	o := New(Options{
		Pools:  map[string]int32{"pool": 1},
		Tell:   func(who, what string) { told = append(told, who+": "+what) },
		PodsOn: podsOn,
	})

	o.Machine(nil, machine("old", v1alpha1.MachineRunning))
	o.Pod(nil, pod("a", corev1.ConditionTrue))
	o.Pod(nil, pod("b", corev1.ConditionTrue))
	o.Begin()

	return o, &told
}

// TestObserver_Replacement passes the changes of a replacement under a PodDisruptionBudget.
func TestObserver_Replacement(t *testing.T) {
	t.Parallel()

	o, told := begin(func(string) ([]corev1.Pod, error) { return nil, nil })

	o.Machine(machine("old", v1alpha1.MachineRunning), deleted(machine("old", v1alpha1.MachineRunning)))
	o.Machine(nil, machine("new", ""))
	o.Machine(machine("new", ""), machine("new", v1alpha1.MachineRunning))

	evicted := pod("a", corev1.ConditionTrue)
	evicted.Status.Conditions = append(evicted.Status.Conditions,
		corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	o.Pod(pod("a", corev1.ConditionTrue), deleted(evicted))
	o.Pod(evicted, nil)
	o.Pod(pod("c", corev1.ConditionFalse), pod("c", corev1.ConditionTrue))
	o.Instance(instance("host"), deleted(instance("host")))
	o.Machine(machine("old", v1alpha1.MachineTerminating), nil)

	require.Equal(t, []string{"old"}, o.Deletions())
	require.Equal(t, 1, o.Away("pool"))
	require.Equal(t, []End{{Pod: "a", Node: "old", Evicted: true}}, o.Ends())

	now, fewest := o.Ready("web")
	require.Equal(t, 2, now)
	require.Equal(t, 1, fewest)
	require.Equal(t, []string{
		"MCM: old is to be deleted",
		"MCM: new is created",
		"MCM: new is Running",
		"shoot: pod a is gone from old: EvictionByEvictionAPI",
		"shoot: pod c is ready on old",
		"KubeVirt: old is shutting down, with 0 pods on it",
		"MCM: old is gone",
	}, *told)
}

func TestObserver_Instance(t *testing.T) {
	t.Parallel()

	marked := instance("host")
	marked.Status.EvacuationNodeName = "host"

	tests := map[string]struct {
		reason      string
		pods        []corev1.Pod
		err         error
		before, now *kubevirtv1.VirtualMachineInstance
		told        []string
		ends        []End
	}{
		"Marked":  {reason: "the eviction of its pod was refused", before: instance("host"), now: marked, told: []string{"KubeVirt: old is marked for evacuation from host"}},
		"Moved":   {reason: "it was live-migrated", before: instance("host"), now: instance("other"), told: []string{"KubeVirt: old moved from host to other"}},
		"Started": {reason: "it did not run before", before: &kubevirtv1.VirtualMachineInstance{}, now: instance("host"), told: []string{"KubeVirt: old runs on host"}},
		"Killed": {
			reason: "its pods end with it",
			pods:   []corev1.Pod{*pod("a", corev1.ConditionTrue)},
			before: instance("host"),
			now:    nil,
			told:   []string{"KubeVirt: old is shutting down, with 1 pods on it"},
			ends:   []End{{Pod: "a", Node: "old", Killed: true}},
		},
		"Unreadable": {reason: "the number of pods is not known", err: errors.New("refused"), before: instance("host"), now: nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o, told := begin(func(string) ([]corev1.Pod, error) { return tc.pods, tc.err })
			o.Instance(tc.before, tc.now)

			require.Equal(t, tc.told, *told, tc.reason)
			require.Equal(t, tc.ends, o.Ends())
		})
	}
}

// TestObserver_Ready counts pods that never changed.
func TestObserver_Ready(t *testing.T) {
	t.Parallel()

	o, _ := begin(nil)
	now, fewest := o.Ready("web")
	require.Equal(t, 2, now)
	require.Equal(t, 2, fewest)
}

func TestHandler(t *testing.T) {
	t.Parallel()

	var changes []string

	h := Handler(func(before, now *corev1.Pod) {
		name := func(p *corev1.Pod) string {
			if p == nil {
				return "nil"
			}

			return p.Name
		}
		changes = append(changes, name(before)+" "+name(now))
	})
	h.OnAdd(pod("a", ""), true)
	h.OnUpdate(pod("a", ""), pod("b", ""))
	h.OnDelete(cache.DeletedFinalStateUnknown{Obj: pod("c", "")})
	require.Equal(t, []string{"nil a", "a b", "c nil"}, changes)
}
