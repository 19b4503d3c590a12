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

func TestVirtHandler_Fail(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ended := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-10 * time.Second))}},
	}}}
	running := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Minute))}},
	}}}
	for name, test := range map[string]struct {
		reason string
		fault  behaviour.Fault
		booted time.Time
		pod    corev1.PodStatus
		left   time.Duration
		doomed bool
		phase  kubevirtv1.VirtualMachineInstancePhase
	}{
		"healthy":  {reason: "nothing has happened", phase: kubevirtv1.Running},
		"crashed":  {reason: "virt-handler sees the end of QEMU", fault: behaviour.FaultCrash, doomed: true, phase: kubevirtv1.Failed},
		"rebooted": {reason: "the node has no such process", booted: now.Add(-time.Second), pod: running, doomed: true, phase: kubevirtv1.Failed},
		"later":    {reason: "the launcher was started after the boot, for example by a migration", booted: now.Add(-time.Hour), pod: running, phase: kubevirtv1.Running},
		"bound": {
			reason: "its node was down when the launcher was bound to it, so that it starts after the boot",
			booted: now.Add(-time.Second),
			pod:    corev1.PodStatus{Phase: corev1.PodPending},
			phase:  kubevirtv1.Running,
		},
		"launcher": {reason: "the watchdog waits", pod: ended, left: behaviour.WatchdogLatency - 10*time.Second, doomed: true, phase: kubevirtv1.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if !test.booted.IsZero() {
				node.Annotations = map[string]string{behaviour.BootedAnnotation: test.booted.Format(time.RFC3339)}
			}
			require.NoError(t, nodes.Add(node))
			h := &VirtHandler{Provider: &cluster.Provider{Nodes: corelisters.NewNodeLister(nodes)}}
			instance := testInstance()
			instance.Annotations = map[string]string{behaviour.FaultAnnotation: string(test.fault)}
			instance.Status.Phase = kubevirtv1.Running
			instance.Status.NodeName = "n"

			left, doomed := h.fail(instance, &corev1.Pod{Status: test.pod}, now)
			require.Equal(t, test.left, left, test.reason)
			require.Equal(t, test.doomed, doomed, test.reason)
			require.Equal(t, test.phase, instance.Status.Phase, test.reason)
		})
	}
}
