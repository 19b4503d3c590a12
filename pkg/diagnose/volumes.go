// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

const (
	// crashes is the number of importer crashes that counts as a failure: the backoff has then
	// taken a minute.
	crashes = 3
	// startingPod is CDI's reason for a pod that it cannot create.
	startingPod = "ErrStartingPod"

	// sizeMissing is CDI's message for a clone whose source does not exist yet
	// (pkg/controller/clone/planner.go). That may take as long as an import: it is not a failure.
	sizeMissing = "source/target size info missing"
)

// ofVolumes reads the images first: an image that is not complete is the
// cause of problems with its clones.
func (e *Evidence) ofVolumes() []sign {
	var signs []sign

	incomplete := map[string]bool{}

	for i := range e.Images {
		image := &e.Images[i]
		if image.Status.Phase == cdiv1beta1.Succeeded {
			continue
		}

		incomplete[image.Namespace+"/"+image.Name] = true
		signs = append(signs, e.ofVolume(image, "image")...)
	}

	for i := range e.DataVolumes {
		if dv := &e.DataVolumes[i]; !incomplete[SourceOf(dv)] {
			signs = append(signs, e.ofVolume(dv, "DataVolume")...)
		}
	}

	return signs
}

func (e *Evidence) ofVolume(dv *cdiv1beta1.DataVolume, kind string) []sign {
	signs := ofDataVolume(dv, kind)
	if !e.WithStalls {
		return signs
	}

	return append(signs, e.ofStall(dv, kind)...)
}

// SourceOf returns the namespace and name of the claim that a DataVolume is cloned
// from, separated by a slash; empty if it is not cloned. A DataVolume of that name, if
// there is one, fills the claim.
func SourceOf(dv *cdiv1beta1.DataVolume) string {
	if dv.Spec.Source == nil || dv.Spec.Source.PVC == nil {
		return ""
	}

	namespace := dv.Spec.Source.PVC.Namespace
	if namespace == "" {
		namespace = dv.Namespace
	}

	return namespace + "/" + dv.Spec.Source.PVC.Name
}

// ofDataVolume lists the conditions that are not true. Every DataVolume has some until it is
// complete: the table contains the reasons that are failures.
func ofDataVolume(dv *cdiv1beta1.DataVolume, kind string) []sign {
	if dv.Status.Phase == cdiv1beta1.Succeeded || dv.DeletionTimestamp != nil {
		return nil
	}

	var signs []sign

	subject := kind + " " + dv.Name

	for i := range dv.Status.Conditions {
		c := &dv.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue || c.Message == sizeMissing {
			continue
		}

		signs = append(signs, sign{
			from:    volume,
			reason:  c.Reason,
			message: conditionMessage(dv, c),
			subject: subject,
			since:   conditionTime(dv, c),
			object:  named("DataVolume", dv),
			kind:    string(c.Type),
			status:  string(c.Status),
		})
	}

	if dv.Status.Phase == cdiv1beta1.Failed {
		signs = append(signs, failedVolume(signs, dv, subject))
	}

	return signs
}

// failedVolume returns the sign of a DataVolume that CDI has given up, with the
// importer's message if there is one.
func failedVolume(signs []sign, dv *cdiv1beta1.DataVolume, subject string) sign {
	failed := sign{
		from:    volume,
		reason:  string(cdiv1beta1.Failed),
		message: "has failed",
		subject: subject,
		since:   dv.CreationTimestamp.Time,
		object:  named("DataVolume", dv),
		kind:    statusPhase,
		status:  string(dv.Status.Phase),
	}

	for _, s := range signs {
		if s.message != "" {
			failed.message = s.message
		}

		failed.since = latest(failed.since, s.since)
	}

	return failed
}

// conditionMessage returns the message of a condition. CDI hides why it cannot create a pod
// (HandleFailedPod in pkg/controller/common/util.go); a missing PriorityClass is one of the reasons.
func conditionMessage(dv *cdiv1beta1.DataVolume, c *cdiv1beta1.DataVolumeCondition) string {
	if c.Reason == startingPod && dv.Spec.PriorityClassName != "" {
		return fmt.Sprintf("%s; the pod has the PriorityClass %q", c.Message, dv.Spec.PriorityClassName)
	}

	return c.Message
}

// conditionTime returns since when a condition has its present content. CDI updates its transition
// time only with the status, and the heartbeat with reason and message
// (pkg/controller/datavolume/conditions.go). An importer that crashes repeatedly has not succeeded
// since the beginning, even if it runs for a second in each attempt.
func conditionTime(dv *cdiv1beta1.DataVolume, c *cdiv1beta1.DataVolumeCondition) time.Time {
	if c.Type == cdiv1beta1.DataVolumeRunning && dv.Status.RestartCount >= crashes {
		return dv.CreationTimestamp.Time
	}

	return latest(c.LastTransitionTime.Time, c.LastHeartbeatTime.Time)
}

// FinalizersOf returns the finalizers of an object as part of a sentence.
func FinalizersOf(object metav1.Object) string {
	if len(object.GetFinalizers()) == 0 {
		return "no finalizers"
	}

	return "finalizers " + strings.Join(object.GetFinalizers(), ", ")
}

// ofDeletedClaims returns the signs of claims that still exist after their deletion, which ends within
// seconds unless a finalizer or a pod holds the claim. They count towards a ResourceQuota.
func ofDeletedClaims(claims []corev1.PersistentVolumeClaim) []sign {
	var signs []sign

	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp == nil {
			continue
		}

		signs = append(signs, sign{
			from:    claimDeletion,
			subject: "PersistentVolumeClaim " + claim.Name,
			since:   claim.DeletionTimestamp.Time,
			message: "is still being deleted, with " + FinalizersOf(claim),
			object:  named("PersistentVolumeClaim", claim),
			kind:    "Deletion",
			status:  "Terminating",
		})
	}

	return signs
}
