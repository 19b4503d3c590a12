// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	corev1 "k8s.io/api/core/v1"
)

// machineBlockReason returns the operation of machine-controller-manager on a machine that the
// action must not interrupt; empty if there is none.
func machineBlockReason(machine *v1alpha1.Machine, do action, now time.Time) string {
	switch {
	case isUpdatedInPlace(machine):
		return "it is being updated in place"
	case do == replace && isPreserved(machine, now):
		// A live migration does not destroy it.
		return "it is preserved"
	default:
		return ""
	}
}

// poolBlockReason returns why the pool cannot spare the machine: others are missing, or no
// replacement would be created. It returns an empty string if the pool can.
func (p *planner) poolBlockReason(pool *machinePool, candidate *v1alpha1.Machine, do action) string {
	missing := p.missing(pool, candidate)

	switch {
	case do == replace && pool.name == "":
		return "no MachineSet would replace its Machine"
	case do == replace && pool.frozen:
		return pool.title() + " is frozen, so its Machine would not be replaced"
	case missing > p.limits.MaxPerDeployment:
		return fmt.Sprintf("%d of %d other Machines of %s are Running", pool.desired-missing, pool.desired-1, pool.title())
	default:
		return ""
	}
}

// isUpdatedInPlace reports whether an in-place update is in progress (machine-controller-manager,
// pkg/util/provider/machinecontroller). It is false for a node that is only a candidate and still in
// use, and true for a failed update, which an operator must resolve.
func isUpdatedInPlace(machine *v1alpha1.Machine) bool {
	return slices.Contains(inPlacePhases, machine.Status.CurrentStatus.Phase) ||
		slices.ContainsFunc(machine.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == v1alpha1.NodeInPlaceUpdate && slices.Contains(inPlaceReasons, condition.Reason)
		})
}

// updateStepBegin returns when the current step of an update in place began.
// machine-controller-manager sets the time with each reason and phase.
func updateStepBegin(machine *v1alpha1.Machine) time.Time {
	var begin time.Time

	if current := machine.Status.CurrentStatus; slices.Contains(inPlacePhases, current.Phase) {
		begin = current.LastUpdateTime.Time
	}

	for _, condition := range machine.Status.Conditions {
		if condition.Type == v1alpha1.NodeInPlaceUpdate {
			begin = later(begin, condition.LastTransitionTime.Time)
		}
	}

	return begin
}

var (
	inPlacePhases = []v1alpha1.MachinePhase{
		v1alpha1.MachineInPlaceUpdating, v1alpha1.MachineInPlaceUpdateSuccessful, v1alpha1.MachineInPlaceUpdateFailed,
	}
	inPlaceReasons = []string{v1alpha1.SelectedForUpdate, v1alpha1.DrainSuccessful, v1alpha1.ReadyForUpdate}
)

// isPreserved reports whether machine-controller-manager preserves a machine for debugging, or will do
// so when it has processed the annotation.
func isPreserved(machine *v1alpha1.Machine, now time.Time) bool {
	if expiry := machine.Status.CurrentStatus.PreserveExpiryTime; expiry != nil {
		return expiry.After(now)
	}

	switch machine.Annotations[machineutils.PreserveMachineAnnotationKey] {
	case machineutils.PreserveMachineAnnotationValueNow:
		return true
	case machineutils.PreserveMachineAnnotationValueWhenFailed, machineutils.PreserveMachineAnnotationValueAutoPreserved:
		return machineutils.IsMachineFailed(machine)
	default:
		return false
	}
}
