// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// starting returns a machine with this launcher pod.
func starting(pod *corev1.Pod) *diagnose.Evidence {
	return &diagnose.Evidence{VirtualMachine: newVM("Starting"), Instance: newInstance(kubevirtv1.Scheduling), Pods: []corev1.Pod{*pod}}
}

// boundPod returns a launcher pod that was assigned to a node then, and has not been updated since.
func boundPod(since metav1.Time) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "launcher"},
		Spec:       corev1.PodSpec{NodeName: "host"},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: since},
			},
		},
	}
}

// takenUp returns a launcher pod that its kubelet has taken up.
func takenUp(phase corev1.PodPhase, conditions ...corev1.PodCondition) *corev1.Pod {
	pod := boundPod(ago(time.Hour))
	pod.Status.Phase = phase
	pod.Status.StartTime = new(ago(time.Hour))
	pod.Status.Conditions = append(pod.Status.Conditions, conditions...)

	return pod
}

func deleted(pod *corev1.Pod, end metav1.Time) *corev1.Pod {
	pod.DeletionTimestamp = &end

	return pod
}

func podIs(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: ago(61 * time.Second)}
}

// TestDeadNode tests states of a launcher pod that show that its node does
// not respond, and similar ones.
func TestDeadNode(t *testing.T) {
	t.Parallel()

	pending := podIs(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")

	tests := map[string]struct {
		pod *corev1.Pod
		// says is the expected evidence; empty if there is none.
		says string
	}{
		"NotTakenUp":        {boundPod(ago(61 * time.Second)), "kubelet on provider node host has not started pod launcher"},
		"NeverTakenUp":      {deleted(boundPod(ago(time.Hour)), ago(-time.Minute)), "kubelet on provider node host has not started pod launcher"},
		"JustBound":         {boundPod(ago(5 * time.Second)), ""},
		"NotBound":          {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, ""},
		"Starting":          {takenUp(corev1.PodPending, pending), ""},
		"NotEnded":          {deleted(takenUp(corev1.PodPending, pending), ago(61*time.Second)), "kubelet on provider node host has not terminated pod launcher in time"},
		"NotEndedRunning":   {deleted(takenUp(corev1.PodRunning), ago(61*time.Second)), "kubelet on provider node host has not terminated pod launcher in time"},
		"Ending":            {deleted(takenUp(corev1.PodRunning), ago(-time.Second)), ""},
		"HeldByAFinalizer":  {held(deleted(takenUp(corev1.PodRunning), ago(time.Hour))), ""},
		"MarkedNotReady":    {takenUp(corev1.PodRunning, podIs(corev1.PodReady, corev1.ConditionFalse, ""), podIs(corev1.ContainersReady, corev1.ConditionTrue, "")), "provider node host, on which pod launcher runs, is not ready"},
		"Paused":            {takenUp(corev1.PodRunning, podIs(corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady"), podIs(corev1.ContainersReady, corev1.ConditionTrue, "")), ""},
		"ContainersUnready": {takenUp(corev1.PodRunning, pending, podIs(corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady")), ""},
		"Ready":             {takenUp(corev1.PodRunning, podIs(corev1.PodReady, corev1.ConditionTrue, ""), podIs(corev1.ContainersReady, corev1.ConditionTrue, "")), ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cause := starting(tc.pod).Cause(now, grace)
			if tc.says == "" {
				require.True(t, cause == nil || cause.ReportableAt.After(now), "%v", cause)

				return
			}

			require.NotNil(t, cause)
			require.False(t, cause.ReportableAt.After(now))
			require.Equal(t, "NodeDown", cause.Err.Reason)
			require.Contains(t, cause.Err.Message, tc.says)
			require.Contains(t, cause.Err.Remedy, "repair the provider node")

			dead := diagnose.DeadNode([]corev1.Pod{*tc.pod}, now)
			require.Equal(t, cause.Err.Message, dead.Message)
			require.Equal(t, cause.Err.Remedy, dead.Remedy)
		})
	}

	require.Empty(t, diagnose.DeadNode(nil, now))
	require.Empty(t, diagnose.DeadNode([]corev1.Pod{*deleted(takenUp(corev1.PodRunning), ago(-time.Second))}, now), "its time is not over")
}

func held(pod *corev1.Pod) *corev1.Pod {
	pod.Finalizers = []string{"example.com/hold"}

	return pod
}

// TestDeadNode_ReplacedInstance tests the state after the taint manager has acted: KubeVirt replaces
// the instance, and waits for its pod forever.
func TestDeadNode_ReplacedInstance(t *testing.T) {
	t.Parallel()

	e := starting(deleted(takenUp(corev1.PodPending), ago(2*time.Minute)))
	e.VirtualMachine = crashing(1)
	e.Instance.Status.Phase = kubevirtv1.Failed
	e.Instance.DeletionTimestamp = new(ago(time.Hour))

	require.Equal(t, "NodeDown", e.Cause(now, grace).Err.Reason)
}

// TestDeadNode_Event ignores an event that a node controller records once, since the node may have
// recovered.
func TestDeadNode_Event(t *testing.T) {
	t.Parallel()

	require.Nil(t, podSays("NodeNotReady", "Node is not ready", 2*time.Minute).Cause(now, grace))
}

// rejectedPod returns a pod that the scheduler has rejected.
func rejectedPod(reason string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type:    corev1.PodScheduled,
		Status:  corev1.ConditionFalse,
		Reason:  reason,
		Message: "0/3 nodes are available: 3 Insufficient cpu.",
	}}}}
}
