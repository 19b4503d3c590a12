// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// fail ends a guest that has crashed, whose node has booted again, or whose launcher has ended. It reports whether one of that has happened,
// and how long virt-handler does not know yet.
func (h *VirtHandler) fail(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, now time.Time) (left time.Duration, doomed bool) {
	switch {
	case instance.IsRunning() && behaviour.HasFault(instance, behaviour.FaultCrash):
	case ranBefore(pod, h.Provider.BootedAt(instance.Status.NodeName)):
	case instance.IsRunning() && pod.Status.Phase == corev1.PodFailed:
		left = behaviour.Remaining(now, endOf(pod, now), behaviour.WatchdogLatency)
	default:
		return 0, false
	}
	if left == 0 {
		setPhase(instance, kubevirtv1.Failed, now)
	}
	return left, true
}

// ranBefore reports whether a pod's container started before a time. A pod that was only bound to a node that was down starts after its boot.
func ranBefore(pod *corev1.Pod, at time.Time) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.State.Running != nil && status.State.Running.StartedAt.Time.Before(at)
	})
}

// endOf returns when a pod has ended.
func endOf(pod *corev1.Pod, now time.Time) time.Time {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil {
			return status.State.Terminated.FinishedAt.Time
		}
	}
	return now
}
