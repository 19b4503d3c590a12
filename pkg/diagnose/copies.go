// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

const (
	// annotationCloneType is CDI's annotation on the claim of a clone: the strategy that it has chosen
	// (pkg/controller/populators/clone-populator.go).
	annotationCloneType = "cdi.kubevirt.io/cloneType"
	// receiverPrefix begins the name of the pod that receives a copy, and senderSuffix ends that of the one
	// that sends it (pkg/controller/upload-controller.go, pkg/common).
	receiverPrefix = "cdi-upload-"
	senderSuffix   = "-source-pod"
	// failedScheduling and wasScheduled are the reasons of the scheduler's events
	// (k8s.io/kubernetes/pkg/scheduler/schedule_one.go).
	failedScheduling = "FailedScheduling"
	wasScheduled     = "Scheduled"
)

// IsCopyWaiting reports whether CDI copies a DataVolume with two pods, and has not copied anything yet. While
// one of the pods does not start, only its events tell: CDI says that the copy is in progress.
func IsCopyWaiting(dv *cdiv1beta1.DataVolume, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[annotationCloneType] == string(cdiv1beta1.CloneStrategyHostAssisted) &&
		slices.Contains([]cdiv1beta1.DataVolumePhase{cdiv1beta1.CloneScheduled, cdiv1beta1.CloneInProgress}, dv.Status.Phase) &&
		hasNoProgress(dv)
}

// CopyPodsOf returns the names of the two pods that copy into a claim. CDI creates the receiver first, and
// the sender when the receiver is ready.
func CopyPodsOf(claim *corev1.PersistentVolumeClaim) (receiver, sender string) {
	return receiverPrefix + claim.Name, string(claim.UID) + senderSuffix
}

func isCopyPod(name string) bool {
	return strings.HasPrefix(name, receiverPrefix) || strings.HasSuffix(name, senderSuffix)
}

// isScheduled reports whether the scheduler has found a node for a pod, after all.
func (e *Evidence) isScheduled(pod string) bool {
	return slices.ContainsFunc(e.Events, func(event corev1.Event) bool {
		return event.InvolvedObject.Kind == "Pod" && event.InvolvedObject.Name == pod && event.Reason == wasScheduled
	})
}
