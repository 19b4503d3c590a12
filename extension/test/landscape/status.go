// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// retryAfter is the time after which a failed operation is tried again; gardenlet waits longer after each failure.
const retryAfter = 10 * time.Second

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// due reports whether a Shoot needs an operation: its specification has changed, the user asked for a reconciliation, an
// error can be retried, or the last operation was not finished. No operation runs when it is called.
func due(s *gardencorev1beta1.Shoot, now time.Time) bool {
	last := s.Status.LastOperation
	if last == nil || s.Generation != s.Status.ObservedGeneration {
		return true
	}

	switch last.State {
	case gardencorev1beta1.LastOperationStatePending, gardencorev1beta1.LastOperationStateProcessing:
		return true
	case gardencorev1beta1.LastOperationStateSucceeded:
		return s.DeletionTimestamp != nil
	case gardencorev1beta1.LastOperationStateError:
		return now.Sub(last.LastUpdateTime.Time) >= retryAfter
	default:
		return false // As with gardenlet, a failed deletion too waits until the user retries or forces it.
	}
}

// pending reports that a Shoot waits.
func pending(status *gardencorev1beta1.ShootStatus, description string) {
	status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           gardencorev1beta1.LastOperationTypeCreate,
		State:          gardencorev1beta1.LastOperationStatePending,
		Description:    description,
		LastUpdateTime: metav1.Now(),
	}
}

// begin reports the begin of an operation with a Shoot.
func begin(status *gardencorev1beta1.ShootStatus, s *gardencorev1beta1.Shoot, kind gardencorev1beta1.LastOperationType) {
	descriptions := map[gardencorev1beta1.LastOperationType]string{
		gardencorev1beta1.LastOperationTypeDelete: "Deletion of Shoot cluster in progress.",
	}

	description, found := descriptions[kind]
	if !found {
		description = "Reconciliation of Shoot cluster initialized."
	}

	status.Gardener = *identity()
	status.ObservedGeneration = s.Generation
	status.SeedName = s.Spec.SeedName
	status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           kind,
		State:          gardencorev1beta1.LastOperationStateProcessing,
		Description:    description,
		LastUpdateTime: metav1.Now(),
	}
}

// progress reports the task that runs.
func progress(status *gardencorev1beta1.ShootStatus, task string, percent int32) {
	status.LastOperation.Description = task
	status.LastOperation.Progress = percent
	status.LastOperation.LastUpdateTime = metav1.Now()
}

// fail reports the error of a task. Errors with codes that a retry does not repair are final until the Shoot changes.
func fail(status *gardencorev1beta1.ShootStatus, task string, err error) {
	status.LastErrors = []gardencorev1beta1.LastError{
		*v1beta1helper.LastErrorWithTaskID(fmt.Sprintf("task %q failed: %v", task, err), task, v1beta1helper.ExtractErrorCodes(err)...),
	}
	status.LastOperation.State = gardencorev1beta1.LastOperationStateError
	status.LastOperation.Description = err.Error() + " Operation will be retried."
	status.LastOperation.LastUpdateTime = metav1.Now()

	if v1beta1helper.HasNonRetryableErrorCode(status.LastErrors...) {
		status.LastOperation.State = gardencorev1beta1.LastOperationStateFailed
		status.LastOperation.Description = err.Error()
	}
}

// succeed reports the success of an operation.
func succeed(status *gardencorev1beta1.ShootStatus) {
	description := "Shoot cluster has been successfully reconciled."
	if status.LastOperation.Type == gardencorev1beta1.LastOperationTypeDelete {
		description = "Shoot cluster has been successfully deleted."
	}

	status.LastErrors = nil
	status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           status.LastOperation.Type,
		State:          gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		Description:    description,
		LastUpdateTime: metav1.Now(),
	}
}

// changedConditions returns the conditions that differ from those that are stored, with the times that gardenlet writes.
func changedConditions(stored, conditions []gardencorev1beta1.Condition, now clock.Clock) (changed []gardencorev1beta1.Condition) {
	for _, c := range conditions {
		if old := v1beta1helper.GetCondition(stored, c.Type); old != nil && old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			continue
		}

		old := v1beta1helper.GetOrInitConditionWithClock(now, stored, c.Type)
		changed = append(changed, v1beta1helper.UpdatedConditionWithClock(now, old, c.Status, c.Reason, c.Message, c.Codes...))
	}

	return changed
}
