// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
)

// retryAnnotation triggers machine-controller-manager: it reconciles all Machines of a class
// whenever any part of the class changes (pkg/util/provider/machinecontroller/machineclass.go,
// reconcileClusterMachineClass). A change of a Machine's own metadata does not trigger a
// reconciliation.
const retryAnnotation = "kubevirt.machine.gardener.cloud/retry"

// shortRetry is the longest retry period that needs no command.
const shortRetry = 10 * time.Second

// Retry describes when machine-controller-manager acts on the Machine again after the cause is
// repaired.
type Retry struct {
	// When is the text for people.
	When string `json:"when"`
	// Period is how long after a failure the driver is called
	// again; empty if it does not depend on time.
	Period string `json:"period,omitempty"`
	// Command triggers the retry now, or shows the obstacle to it; empty if neither is needed.
	Command string `json:"command,omitempty"`
}

// retryOf returns when machine-controller-manager calls the driver again after a
// cause. It returns nil without a Machine.
func (f *foundMachine) retryOf(failure error, stage spi.Stage) *Retry {
	period, called := kubevirt.NextCall(failure, f.machine, stage)

	switch {
	case f.machine == nil:
		return nil
	case !called:
		return &Retry{
			When: "machine-controller-manager no longer calls the driver for this Machine: it monitors its Node, and replaces the Machine if the Node " +
				"stays unhealthy; to replace it now:",
			Command: f.kubectl("delete machine " + f.machine.Name),
		}
	}

	hint := &Retry{When: "machine-controller-manager retries " + duration.HumanDuration(period) + " after each failure", Period: period.String()}

	switch {
	case period <= shortRetry:
		hint.When += "; no command is needed"
	case f.machine.DeletionTimestamp != nil || f.class == nil:
		hint.When += "; to retry now, restart its pod:"
		hint.Command = f.kubectl("rollout restart deployment/" + controlcluster.Manager)
	default:
		hint.When += "; to retry now, for all Machines of the class:"
		hint.Command = f.kubectl("annotate machineclass " + f.class.Name + " --overwrite " + retryAnnotation + `="$(date +%s)"`)
	}

	return hint
}

// kubectl returns a command for the namespace of the Machine.
func (f *foundMachine) kubectl(command string) string {
	return "kubectl --namespace=" + f.namespace + " " + command
}
