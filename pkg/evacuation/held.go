package evacuation

import (
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	corev1 "k8s.io/api/core/v1"
)

// held returns the operation of machine-controller-manager on a machine that must not be
// interrupted; empty if there is none.
func held(machine *v1alpha1.Machine, do action, now time.Time) string {
	switch {
	case updatedInPlace(machine):
		return "it is being updated in place"
	case do == replace && preserved(machine, now):
		// A live migration preserves it too.
		return "it is preserved"
	default:
		return ""
	}
}

// updatedInPlace reports whether an update is in progress (machine-controller-manager,
// pkg/util/provider/machinecontroller). A node that is only a candidate is still in use. A failed
// update counts too: an operator must resolve it.
func updatedInPlace(machine *v1alpha1.Machine) bool {
	return slices.Contains(inPlacePhases, machine.Status.CurrentStatus.Phase) ||
		slices.ContainsFunc(machine.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == v1alpha1.NodeInPlaceUpdate && slices.Contains(inPlaceReasons, condition.Reason)
		})
}

// updateStep returns when the current step of an update in place began. machine-controller-manager
// sets the time with each reason and phase.
func updateStep(machine *v1alpha1.Machine) time.Time {
	var begun time.Time

	if current := machine.Status.CurrentStatus; slices.Contains(inPlacePhases, current.Phase) {
		begun = current.LastUpdateTime.Time
	}

	for _, condition := range machine.Status.Conditions {
		if condition.Type == v1alpha1.NodeInPlaceUpdate {
			begun = later(begun, condition.LastTransitionTime.Time)
		}
	}

	return begun
}

var (
	inPlacePhases = []v1alpha1.MachinePhase{
		v1alpha1.MachineInPlaceUpdating, v1alpha1.MachineInPlaceUpdateSuccessful, v1alpha1.MachineInPlaceUpdateFailed,
	}
	inPlaceReasons = []string{v1alpha1.SelectedForUpdate, v1alpha1.DrainSuccessful, v1alpha1.ReadyForUpdate}
)

// preserved reports whether a machine is kept for debugging, or will be once
// machine-controller-manager has processed its annotation.
func preserved(machine *v1alpha1.Machine, now time.Time) bool {
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
