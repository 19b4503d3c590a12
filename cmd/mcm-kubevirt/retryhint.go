package main

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// retryAnnotation triggers machine-controller-manager: it reconciles all Machines of a class
// whenever any part of the class changes (pkg/util/provider/machinecontroller/machineclass.go,
// reconcileClusterMachineClass). A change of a Machine's own metadata triggers nothing.
const retryAnnotation = "kubevirt.machine.gardener.cloud/retry"

// soonEnough is the longest retry period that needs no command.
const soonEnough = 10 * time.Second

// retryHint is when machine-controller-manager acts on the
// Machine again once the cause is repaired.
type retryHint struct {
	// When is for people.
	When string `json:"when"`
	// Period is how long after a failure the driver is called
	// again; empty if it does not depend on time.
	Period string `json:"period,omitempty"`
	// Command triggers the retry now, or shows the obstacle to it; empty if neither is needed.
	Command string `json:"command,omitempty"`
}

// retryOf returns when machine-controller-manager calls the driver again after a
// cause. It returns nil without a Machine.
func (f *foundMachine) retryOf(failure error, stage spi.Stage) *retryHint {
	period, called := kubevirt.NextCall(failure, f.machine, stage)

	switch {
	case f.machine == nil:
		return nil
	case !called:
		return &retryHint{When: "machine-controller-manager no longer calls the driver for this Machine: it monitors its Node"}
	}

	hint := &retryHint{When: "machine-controller-manager retries " + duration.HumanDuration(period) + " after each failure", Period: period.String()}

	switch {
	case period <= soonEnough:
	case f.machine.DeletionTimestamp != nil:
		hint.When += "; to retry now, restart its pod:"
		hint.Command = inNamespace(f.namespace, "rollout restart deployment/"+manager)
	case f.class != nil:
		hint.When += "; to retry now, for all Machines of the class:"
		hint.Command = inNamespace(f.namespace, "annotate machineclass "+f.class.Name+" --overwrite "+retryAnnotation+`="$(date +%s)"`)
	}

	return hint
}

func inNamespace(namespace, command string) string {
	return "kubectl --namespace=" + namespace + " " + command
}
