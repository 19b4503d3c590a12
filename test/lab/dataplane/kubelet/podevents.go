// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// warn records why a pod's containers do not start, as kubelets do: one Event
// per reason, with a count.
func (k *PodAgent) warn(ctx context.Context, pod *corev1.Pod, waiting, message string, now time.Time) error {
	reason := eventReason(waiting)
	if k.Client == nil || message == "" || reason == "" {
		return nil
	}
	return cluster.RecordWarning(ctx, k.Client, now, &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       "Pod",
			Namespace:  pod.Namespace,
			Name:       pod.Name,
			UID:        pod.UID,
		},
		Reason:  reason,
		Message: eventMessage(reason, message),
		Source:  corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	})
}

// eventReason maps a container's waiting reason to the reason of kubelet's event.
func eventReason(waiting string) string {
	switch waiting {
	case reasonContainerCreating:
		return "FailedMount"
	case reasonNoSandbox:
		return "FailedCreatePodSandBox"
	case reasonErrImagePull, reasonConfigError:
		return "Failed"
	case reasonImagePullBackOff:
		return "BackOff"
	default:
		return ""
	}
}

func eventMessage(reason, message string) string {
	switch reason {
	case "FailedMount":
		return "MountVolume.SetUp failed for volume: " + message
	case "FailedCreatePodSandBox":
		return "Failed to create pod sandbox: " + message
	default:
		return message
	}
}
