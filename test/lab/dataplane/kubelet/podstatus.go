// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

const (
	reasonCompleted         = "Completed"
	reasonError             = "Error"
	reasonContainerCreating = "ContainerCreating"
	reasonConfigError       = "CreateContainerConfigError"
	reasonErrImagePull      = "ErrImagePull"
	reasonImagePullBackOff  = "ImagePullBackOff"
	reasonCrashLoopBackOff  = "CrashLoopBackOff"
	reasonOutOfMemory       = "OOMKilled"
	// reasonNoSandbox means ContainerCreating, since the pod has no sandbox. Containers do not report it.
	reasonNoSandbox = "NoSandbox"
)

// Delays before the next attempt to start containers.
const (
	imagePullBackOff = 10 * time.Second
	crashLoopBackOff = 10 * time.Second
	maxCrashBackOff  = 5 * time.Minute
)

// ExitOutOfMemory is the exit code of containers that exceed their memory limit: that of SIGKILL.
const ExitOutOfMemory = 137

// IsFinished reports whether a pod has succeeded or failed.
func IsFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// containerState returns the state of the containers, which all share the same state.
func containerState(pod *corev1.Pod) corev1.ContainerState {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerState{}
	}
	return pod.Status.ContainerStatuses[0].State
}

// lastExit returns when the containers last exited.
func lastExit(pod *corev1.Pod) time.Time {
	for _, status := range pod.Status.ContainerStatuses {
		if exit := status.LastTerminationState.Terminated; exit != nil {
			return exit.FinishedAt.Time
		}
	}
	return time.Time{}
}

// crashBackOff returns kubelet's delay before the next start of crashing containers.
func crashBackOff(pod *corev1.Pod) time.Duration {
	delay := crashLoopBackOff
	for range restarts(pod) {
		delay = min(2*delay, maxCrashBackOff)
	}
	return delay
}

// restarts returns how often the containers were restarted.
func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// setWaiting reports containers that cannot start.
func setWaiting(pod *corev1.Pod, reason, message string, now time.Time) {
	if reason == reasonNoSandbox {
		reason = reasonContainerCreating
		message = ""
	}
	acknowledge(pod, now)
	pod.Status.Phase = corev1.PodPending
	setContainers(pod, false, corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	})
	setPodCondition(pod, corev1.PodReadyToStartContainers, reason != reasonContainerCreating, "", now)
	setPodCondition(pod, corev1.PodInitialized, true, "", now)
	setReadiness(pod, false, now)
}

// setRunning reports containers that were started or restarted.
func setRunning(pod *corev1.Pod, ip string, now time.Time) {
	acknowledge(pod, now)
	if containerState(pod).Waiting != nil && lastExit(pod) != (time.Time{}) {
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].RestartCount++
		}
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = ip
	pod.Status.PodIPs = []corev1.PodIP{{IP: ip}}
	setInitContainers(pod, now)
	setContainers(pod, true, corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)},
	})
	setPodCondition(pod, corev1.PodReadyToStartContainers, true, "", now)
	setPodCondition(pod, corev1.PodInitialized, true, "", now)
	setReadiness(pod, true, now)
}

// setExited reports exited containers. The pod is finished unless its restart
// policy requires a restart.
func setExited(pod *corev1.Pod, code int32, message string, now time.Time) {
	exit := &corev1.ContainerStateTerminated{
		ExitCode:   code,
		Reason:     reasonCompleted,
		Message:    message,
		FinishedAt: metav1.NewTime(now),
	}
	if running := containerState(pod).Running; running != nil {
		exit.StartedAt = running.StartedAt
	}
	switch code {
	case 0:
	case ExitOutOfMemory:
		exit.Reason = reasonOutOfMemory
	default:
		exit.Reason = reasonError
	}
	setContainers(pod, false, corev1.ContainerState{Terminated: exit})
	switch {
	case code == 0:
		pod.Status.Phase = corev1.PodSucceeded
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		pod.Status.Phase = corev1.PodFailed
	}
	setReadiness(pod, false, now)
}

// setCrashLoop reports that exited containers wait for their next start.
func setCrashLoop(pod *corev1.Pod, now time.Time) {
	for i, status := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].LastTerminationState = status.State
		pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  reasonCrashLoopBackOff,
			Message: "back-off " + crashBackOff(pod).String() + " restarting failed container=" + status.Name,
		}}
	}
	setReadiness(pod, false, now)
}

// acknowledge marks a pod as seen by its kubelet.
func acknowledge(pod *corev1.Pod, now time.Time) {
	if pod.Status.StartTime == nil {
		started := metav1.NewTime(now)
		pod.Status.StartTime = &started
	}
}

// setContainers sets the same state on every container and keeps the values
// that persist over restarts.
func setContainers(pod *corev1.Pod, up bool, state corev1.ContainerState) {
	former := map[string]corev1.ContainerStatus{}
	for _, status := range pod.Status.ContainerStatuses {
		former[status.Name] = status
	}
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for _, container := range pod.Spec.Containers {
		status := former[container.Name]
		status.Name = container.Name
		status.Image = container.Image
		status.ImageID = imageID(container.Image)
		status.ContainerID = "sim://" + string(pod.UID) + "/" + container.Name
		status.Ready = up
		status.Started = &up
		status.State = state
		statuses = append(statuses, status)
	}
	pod.Status.ContainerStatuses = statuses
}

// imageID returns a reference by digest, as container runtimes report it. The target of a migration
// boots from exactly that image.
func imageID(image string) string {
	if strings.Contains(image, "@") {
		return image
	}
	return fmt.Sprintf("%s@sha256:%x", image, sha256.Sum256([]byte(image)))
}

// setInitContainers reports init containers as completed, and sidecars as running.
func setInitContainers(pod *corev1.Pod, now time.Time) {
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.InitContainers))
	at := metav1.NewTime(now)
	up := true
	for _, container := range pod.Spec.InitContainers {
		state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason:     reasonCompleted,
			StartedAt:  at,
			FinishedAt: at,
		}}
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
		}
		statuses = append(statuses, corev1.ContainerStatus{
			Name:    container.Name,
			Image:   container.Image,
			ImageID: imageID(container.Image),
			Ready:   true,
			Started: &up,
			State:   state,
		})
	}
	pod.Status.InitContainerStatuses = statuses
}

// setReadiness sets ContainersReady, and sets Ready according to the pod's readiness gates.
func setReadiness(pod *corev1.Pod, containersReady bool, now time.Time) {
	reason := ""
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case pod.Status.Phase == corev1.PodFailed:
		reason = "PodFailed"
	case !containersReady:
		reason = "ContainersNotReady"
	}
	setPodCondition(pod, corev1.ContainersReady, containersReady, reason, now)
	ready := containersReady && gatesOpen(pod) && gateDelay(pod, now) == 0
	if containersReady && !ready {
		reason = "ReadinessGatesNotReady"
	}
	setPodCondition(pod, corev1.PodReady, ready, reason, now)
}

// gatesOpen reports whether the conditions of all readiness gates are True.
func gatesOpen(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		open := false
		for _, condition := range pod.Status.Conditions {
			open = open || (condition.Type == gate.ConditionType && condition.Status == corev1.ConditionTrue)
		}
		if !open {
			return false
		}
	}
	return true
}

// gateDelay returns how long kubelet still needs to notice that a readiness gate of a ready pod has opened: that of a migration's target
// opens when the guest has arrived.
func gateDelay(pod *corev1.Pod, now time.Time) time.Duration {
	var delay time.Duration
	for _, gate := range pod.Spec.ReadinessGates {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == gate.ConditionType && condition.Status == corev1.ConditionTrue {
				delay = max(delay, behaviour.Remaining(now, condition.LastTransitionTime.Time, behaviour.GateLatency))
			}
		}
	}
	return delay
}

// setPodCondition stores a condition; its transition time changes only with its status.
func setPodCondition(pod *corev1.Pod, kind corev1.PodConditionType, holds bool, reason string, now time.Time) {
	condition := corev1.PodCondition{
		Type:               kind,
		Status:             corev1.ConditionFalse,
		Reason:             reason,
		LastTransitionTime: metav1.NewTime(now),
	}
	if holds {
		condition.Status = corev1.ConditionTrue
	}
	for i, current := range pod.Status.Conditions {
		if current.Type != kind {
			continue
		}
		if current.Status == condition.Status {
			condition.LastTransitionTime = current.LastTransitionTime
		}
		pod.Status.Conditions[i] = condition
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
