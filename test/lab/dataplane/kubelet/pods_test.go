// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// scriptedWorkloads returns scripted answers.
type scriptedWorkloads struct {
	waiting string
	result  Outcome
}

func (s *scriptedWorkloads) Startable(context.Context, *corev1.Pod) (reason, message string, err error) {
	return s.waiting, "", nil
}
func (s *scriptedWorkloads) Outcome(*corev1.Pod) Outcome         { return s.result }
func (s *scriptedWorkloads) Stoppable(*corev1.Pod) time.Duration { return 0 }
func (s *scriptedWorkloads) Address(*corev1.Pod) string          { return "10.244.0.7" }

// clock is a settable time.
type clock struct{ at time.Time }

func (c *clock) now() time.Time          { return c.at }
func (c *clock) advance(d time.Duration) { c.at = c.at.Add(d) }

func testPod(policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"},
		Spec: corev1.PodSpec{
			NodeName:       "node",
			RestartPolicy:  policy,
			InitContainers: []corev1.Container{{Name: "prepare", Image: "init:1"}},
			Containers:     []corev1.Container{{Name: "main", Image: "main:1"}, {Name: "side", Image: "side:1"}},
		},
	}
}

func podConditionStatus(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

func TestKubeletStartsAndEndsAPod(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	script := &scriptedWorkloads{waiting: reasonContainerCreating}
	k := &PodAgent{Workloads: script, Now: c.now}
	pod := testPod(corev1.RestartPolicyOnFailure)

	after, err := k.advance(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, behaviour.PollInterval, after)
	require.Equal(t, corev1.PodPending, pod.Status.Phase)
	require.Equal(t, reasonContainerCreating, pod.Status.ContainerStatuses[1].State.Waiting.Reason)

	script.waiting = ""
	_, err = k.advance(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Equal(t, "10.244.0.7", pod.Status.PodIP)
	require.Len(t, pod.Status.ContainerStatuses, 2)
	require.Equal(t, reasonCompleted, pod.Status.InitContainerStatuses[0].State.Terminated.Reason)
	require.Equal(t, corev1.ConditionTrue, podConditionStatus(pod, corev1.PodReady))
	require.Zero(t, restarts(pod), "the first start does not count as a restart")

	settled := pod.DeepCopy()
	c.advance(time.Minute)
	_, err = k.advance(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, settled.Status, pod.Status, "the status of a running pod does not change")

	script.result = Succeeded("done")
	_, err = k.advance(t.Context(), pod)
	require.NoError(t, err)
	require.Equal(t, corev1.PodSucceeded, pod.Status.Phase)
	require.Equal(t, "done", pod.Status.ContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, corev1.ConditionFalse, podConditionStatus(pod, corev1.PodReady))
}

func TestKubeletRestartsFailingContainers(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	script := &scriptedWorkloads{result: Outcome{Exited: true, Code: 1, Message: "not found"}}
	k := &PodAgent{Workloads: script, Now: c.now}
	pod := testPod(corev1.RestartPolicyOnFailure)

	step := func(d time.Duration) {
		c.advance(d)
		_, err := k.advance(t.Context(), pod)
		require.NoError(t, err)
	}
	step(0) // starts
	step(0) // exits
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Equal(t, "not found", pod.Status.ContainerStatuses[0].State.Terminated.Message)
	require.Equal(t, int32(1), pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)

	step(behaviour.PollInterval)
	require.Equal(t, reasonCrashLoopBackOff, pod.Status.ContainerStatuses[0].State.Waiting.Reason)
	step(crashLoopBackOff - 2*time.Second)
	require.NotNil(t, pod.Status.ContainerStatuses[0].State.Waiting, "back-off is not over")
	step(time.Second)
	require.NotNil(t, pod.Status.ContainerStatuses[0].State.Running)
	require.Equal(t, int32(1), restarts(pod))
	require.Equal(t, 2*crashLoopBackOff, crashBackOff(pod), "the next back-off is longer")
}

func TestExitWithoutRestartFailsThePod(t *testing.T) {
	t.Parallel()
	pod := testPod(corev1.RestartPolicyNever)
	setRunning(pod, "10.244.0.7", time.Now())
	setExited(pod, 1, "", time.Now())
	require.Equal(t, corev1.PodFailed, pod.Status.Phase)
}

func TestSetExited_OutOfMemory(t *testing.T) {
	t.Parallel()
	pod := testPod(corev1.RestartPolicyOnFailure)
	setRunning(pod, "10.244.0.7", time.Now())
	setExited(pod, ExitOutOfMemory, "", time.Now())
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Equal(t, reasonOutOfMemory, pod.Status.ContainerStatuses[0].State.Terminated.Reason)
}

func TestReadinessGates(t *testing.T) {
	t.Parallel()
	pod := testPod(corev1.RestartPolicyNever)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "kubevirt.io/virtual-machine-unpaused"}}
	now := time.Now()
	setRunning(pod, "10.244.0.7", now)
	require.Equal(t, corev1.ConditionTrue, podConditionStatus(pod, corev1.ContainersReady))
	require.Equal(t, corev1.ConditionFalse, podConditionStatus(pod, corev1.PodReady))

	setPodCondition(pod, "kubevirt.io/virtual-machine-unpaused", true, "", now)
	setReadiness(pod, true, now)
	require.Equal(t, corev1.ConditionFalse, podConditionStatus(pod, corev1.PodReady), "kubelet has not noticed it yet")
	require.Equal(t, behaviour.GateLatency, gateDelay(pod, now))
	setReadiness(pod, true, now.Add(behaviour.GateLatency))
	require.Equal(t, corev1.ConditionTrue, podConditionStatus(pod, corev1.PodReady))
}

func TestImageID(t *testing.T) {
	t.Parallel()
	id := imageID("registry.local/disk:1")
	require.Regexp(t, `^registry\.local/disk:1@sha256:[0-9a-f]{64}$`, id)
	require.Equal(t, id, imageID(id), "a reference by digest is unchanged")
}
