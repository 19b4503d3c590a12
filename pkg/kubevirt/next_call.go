package kubevirt

import (
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// NextCall returns how long after a failure machine-controller-manager calls the driver again for a
// Machine. It returns false for a Machine for which the driver is not called any more. stage is
// empty if the provider cluster could not be asked.
func NextCall(failure error, machine *v1alpha1.Machine, stage spi.Stage) (time.Duration, bool) {
	period := meaningOf(failure).retry

	switch {
	case machine == nil || !called(machine):
		return 0, false
	case machine.DeletionTimestamp != nil:
		return time.Duration(period.remove), true
	case stage == spi.StageCreating:
		return time.Duration(period.initialize), true
	default:
		return time.Duration(period.create), true
	}
}

// called says whether machine-controller-manager calls the driver for a Machine: until it has a provider ID and a phase, and to delete it
// (pkg/util/provider/machinecontroller/machine.go, reconcileClusterMachine).
func called(machine *v1alpha1.Machine) bool {
	phase := machine.Status.CurrentStatus.Phase

	return machine.DeletionTimestamp != nil || machine.Spec.ProviderID == "" || phase == "" || phase == v1alpha1.MachineCrashLoopBackOff
}

const (
	// TokenSecretNotFound is the reason of a Machine whose MachineClass refers to a Secret that machine-controller-manager does not see.
	TokenSecretNotFound = "ClassSecretNotFound"
	// TokenClassNotFound is the reason of a Machine without its MachineClass.
	TokenClassNotFound = "MachineClassNotFound"
	// TokenControllerDown is the reason of a Machine whose controllers do not run.
	TokenControllerDown = "ControllerDown"
	// TokenNotReconciled is the reason of a Machine that the machine controller has not taken up.
	TokenNotReconciled = "MachineNotReconciled"
)

// ControlTokens are the reasons of causes in the control cluster, with the machine code that MCM writes; empty if it writes none. Only
// mcm-kubevirt diagnose sees them. docs/troubleshooting.md has a row for each.
func ControlTokens() map[string]string {
	return map[string]string{
		TokenSecretNotFound: CodeOf(spi.ErrInvalid).String(), TokenClassNotFound: "", TokenControllerDown: "", TokenNotReconciled: "",
	}
}
