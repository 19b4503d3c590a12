// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// NextCall returns how long after a failure machine-controller-manager calls the driver again for a
// Machine. It returns false for a Machine for which the driver is no longer called. stage is empty
// if the provider cluster could not be queried.
func NextCall(failure error, machine *v1alpha1.Machine, stage spi.Stage) (time.Duration, bool) {
	period := meaningOf(failure).retry

	switch {
	case machine == nil || !isCalledFor(machine):
		return 0, false
	case machine.DeletionTimestamp != nil:
		return time.Duration(period.remove), true
	case stage == spi.StageCreating:
		return time.Duration(period.initialize), true
	default:
		return time.Duration(period.create), true
	}
}

// isCalledFor reports whether machine-controller-manager calls the driver for a Machine: until it
// has a provider ID and a phase, and to delete it (pkg/util/provider/machinecontroller/machine.go,
// reconcileClusterMachine).
func isCalledFor(machine *v1alpha1.Machine) bool {
	phase := machine.Status.CurrentStatus.Phase

	return machine.DeletionTimestamp != nil || machine.Spec.ProviderID == "" || phase == "" || phase == v1alpha1.MachineCrashLoopBackOff
}

const (
	// TokenSecretNotFound is the reason of a Machine whose MachineClass refers to a Secret that is not
	// in machine-controller-manager's cache.
	TokenSecretNotFound = "ClassSecretNotFound"
	// TokenClassNotFound is the reason of a Machine whose MachineClass does not exist.
	TokenClassNotFound = "MachineClassNotFound"
	// TokenControllerDown is the reason of a Machine whose machine-controller-manager is not running.
	TokenControllerDown = "ControllerDown"
	// TokenNotReconciled is the reason of a Machine that the machine controller has not reconciled.
	TokenNotReconciled = "MachineNotReconciled"
)

// ControlTokens returns the reasons of causes in the control cluster, with the machine code that
// machine-controller-manager sets; empty if it sets none. Only mcm-kubevirt diagnose reports them.
// docs/troubleshooting.md has a row for each.
func ControlTokens() map[string]string {
	return map[string]string{
		TokenSecretNotFound: CodeOf(spi.ErrInvalid).String(),
		TokenClassNotFound:  "",
		TokenControllerDown: "",
		TokenNotReconciled:  "",
	}
}
