// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// settableClock is a settable time.
type settableClock struct{ at time.Time }

func (c *settableClock) now() time.Time          { return c.at }
func (c *settableClock) advance(d time.Duration) { c.at = c.at.Add(d) }

// migrating is an instance that virt-controller has handed over to the target's virt-handler, with
// the cluster state visible to the handlers.
type migrating struct {
	*VirtHandler

	clock    *settableClock
	instance *kubevirtv1.VirtualMachineInstance
	target   *corev1.Pod
	nodes    cache.Indexer
	pods     cache.Indexer
}

func newMigrating(t *testing.T) *migrating {
	t.Helper()
	m := &migrating{
		clock:    &settableClock{at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)},
		instance: testInstance(),
		target: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "target"},
			Spec:       corev1.PodSpec{NodeName: "there"},
			Status:     corev1.PodStatus{PodIP: "10.244.0.9"},
		},
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
		pods:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	for _, name := range []string{"here", "there"} {
		require.NoError(t, m.nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	require.NoError(t, m.pods.Add(m.target))
	m.instance.Labels = map[string]string{kubevirtv1.NodeNameLabel: "here", kubevirtv1.MigrationTargetNodeNameLabel: "there"}
	status := &m.instance.Status
	status.Phase = kubevirtv1.Running
	status.NodeName = "here"
	status.EvacuationNodeName = "here"
	status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
		MigrationUID: "migration",
		SourceNode:   "here",
		SourcePod:    "source",
		TargetNode:   "there",
		TargetPod:    "target",
	}
	m.VirtHandler = &VirtHandler{
		Provider:  &cluster.Provider{Nodes: corelisters.NewNodeLister(m.nodes), Pods: corelisters.NewPodLister(m.pods)},
		Behaviour: behaviour.Reader{Namespaces: corelisters.NewNamespaceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil))},
		Now:       m.clock.now,
	}
	return m
}

func (m *migrating) step() time.Duration { return m.migrate(m.instance, m.clock.now()) }

// start advances the migration until the guest is being copied.
func (m *migrating) start(t *testing.T) *kubevirtv1.VirtualMachineInstanceMigrationState {
	t.Helper()
	m.step()
	m.step()
	require.NotNil(t, m.instance.Status.MigrationState.StartTimestamp)
	return m.instance.Status.MigrationState
}

func TestPodAddress(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	m.instance.Status.Interfaces = interfaceStatuses(m.instance, "10.244.0.1", false)
	m.start(t)
	m.clock.advance(behaviour.DefaultMigrationLatency)
	m.step()

	ip, again := podAddress(m.instance, m.target, m.clock.now())
	require.Equal(t, "10.244.0.1", ip, "virt-handler still reports the source's address")
	require.Equal(t, behaviour.AddressLatency, again)

	m.clock.advance(again)
	ip, again = podAddress(m.instance, m.target, m.clock.now())
	require.Equal(t, "10.244.0.9", ip)
	require.Zero(t, again)
}

func TestMigrationFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		happen func(t *testing.T, m *migrating)
		want   string
	}{
		"Fault": {
			reason: "the annotation requests the failure",
			want:   migrationFailed,
			happen: func(_ *testing.T, m *migrating) {
				m.instance.Annotations = map[string]string{behaviour.FaultAnnotation: string(behaviour.FaultMigrationFails)}
				m.clock.advance(behaviour.DefaultMigrationLatency)
			},
		},
		"Aborted": {
			reason: "the migration was deleted",
			want:   migrationAborted,
			happen: func(_ *testing.T, m *migrating) {
				m.instance.Annotations = map[string]string{behaviour.FaultAnnotation: string(behaviour.FaultMigrationHangs)}
				m.clock.advance(time.Hour)
				require.Zero(t, m.step())
				require.Nil(t, m.instance.Status.MigrationState.EndTimestamp, "the migration must hang")
				m.instance.Status.MigrationState.AbortRequested = true
			},
		},
		"TargetGone": {
			reason: "its pod was deleted",
			want:   targetLost,
			happen: func(t *testing.T, m *migrating) {
				t.Helper()
				require.NoError(t, m.pods.Delete(m.target))
			},
		},
		"TargetTerminating": {
			reason: "its pod ends",
			want:   targetLost,
			happen: func(t *testing.T, m *migrating) {
				t.Helper()
				ending := m.target.DeepCopy()
				ending.DeletionTimestamp = timestamp(m.clock.now())
				require.NoError(t, m.pods.Update(ending))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMigrating(t)
			state := m.start(t)
			tc.happen(t, m)
			require.Zero(t, m.step())
			require.True(t, state.Failed, tc.reason)
			require.Equal(t, tc.want, state.FailureReason)
			require.NotNil(t, state.EndTimestamp)
			require.Equal(t, "here", m.instance.Status.NodeName, "the guest stays where it is")
			require.Equal(t, "here", m.instance.Status.EvacuationNodeName, "the evacuation is not over")
			m.step()
			require.False(t, state.Completed)
			require.NotContains(t, m.instance.Labels, kubevirtv1.MigrationTargetNodeNameLabel)
		})
	}
}

func TestMigrationWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		happen func(t *testing.T, m *migrating)
		again  time.Duration
	}{
		"NotHandedOver": {
			reason: "virt-controller has not chosen a target yet",
			happen: func(_ *testing.T, m *migrating) { m.instance.Status.MigrationState.TargetNode = "" },
		},
		"NoTargetYet": {
			reason: "before the target listens, virt-controller notices that its pod is gone",
			happen: func(t *testing.T, m *migrating) {
				t.Helper()
				require.NoError(t, m.pods.Delete(m.target))
			},
		},
		"DeadTarget": {
			reason: "no virt-handler runs on a dead node",
			again:  behaviour.PollInterval,
			happen: func(t *testing.T, m *migrating) {
				t.Helper()
				down := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there", Labels: map[string]string{behaviour.DownLabel: "true"}}}
				require.NoError(t, m.nodes.Update(down))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMigrating(t)
			tc.happen(t, m)
			before := m.instance.DeepCopy()
			require.Equal(t, tc.again, m.step(), tc.reason)
			require.Equal(t, before, m.instance, tc.reason)
		})
	}
}

func TestLauncherIsLeft(t *testing.T) {
	t.Parallel()
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	m := newMigrating(t)
	for _, name := range []string{"source", "target"} {
		require.False(t, isLeft(pod(name), m.instance), "the migration is in progress")
	}
	state := m.start(t)
	m.clock.advance(behaviour.DefaultMigrationLatency)
	m.step()
	require.False(t, isLeft(pod("source"), m.instance), "the migration is not finalized")
	m.step()
	require.True(t, isLeft(pod("source"), m.instance))
	require.False(t, isLeft(pod("target"), m.instance))
	require.False(t, isLeft(pod("next-target"), m.instance), "it belongs to the next migration, which has not been handed over yet")
	require.True(t, cluster.MigratedFrom(m.instance, "here"))
	require.False(t, cluster.MigratedFrom(m.instance, "elsewhere"))

	state.Failed = true
	require.True(t, isLeft(pod("target"), m.instance), "no migration uses it any more")
	require.False(t, isLeft(pod("source"), m.instance))
	require.False(t, cluster.MigratedFrom(m.instance, "here"))
}

func TestSooner(t *testing.T) {
	t.Parallel()
	require.Zero(t, sooner(0, 0))
	require.Equal(t, time.Second, sooner(0, time.Second))
	require.Equal(t, time.Second, sooner(time.Second, 0))
	require.Equal(t, time.Second, sooner(time.Minute, time.Second))
}
