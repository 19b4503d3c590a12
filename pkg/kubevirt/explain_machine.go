// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// ExplainRequest is a machine as machine-controller-manager passes it to a driver. If the Machine
// does not exist, it has no UID; only the tags of its class and the kubeconfig of its Secret are
// used.
type ExplainRequest struct {
	Machine      *v1alpha1.Machine
	MachineClass *v1alpha1.MachineClass
	Secret       *corev1.Secret
	// Console is set to read the console of a guest that has not joined.
	Console bool
	// ConsoleLines is set to show its lines, which may contain secrets.
	ConsoleLines bool
}

// Explanation is the state of a machine, and its failure as the driver reports it.
type Explanation struct {
	// Machine is nil if the provider cluster could not be queried, or if the VirtualMachine of that
	// name is not managed by this driver.
	Machine *spi.Explanation
	// Cause is nil if no failure is known. Its error has a reason, a message and a remedy.
	Cause *spi.Cause
}

// Explain examines a machine for an operator. An error that prevents the examination is returned as
// a cause, since the driver's calls fail with the same error.
func Explain(ctx context.Context, explainer spi.Explainer, req *ExplainRequest, allowed apivalidation.Options) *Explanation {
	source := machineclass.SourceOf(req.MachineClass, req.Secret)

	in, refused, err := decodeExplain(req, allowed)
	if err != nil {
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: spi.AsError(err)}, source)}
	}

	found, err := explainer.ExplainMachine(ctx, in)

	switch {
	case err != nil:
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: spi.AsError(err)}, source)}
	case found.Stage == spi.StageAbsent && hadVirtualMachine(req.Machine):
		return &Explanation{Machine: found, Cause: vanished(found, source)}
	case found.Stage == spi.StageAbsent && refused != nil:
		return &Explanation{Machine: found, Cause: causeFrom(&spi.Cause{Err: spi.AsError(refused)}, source)}
	default:
		return &Explanation{Machine: found, Cause: causeFrom(found.Cause, source)}
	}
}

// decodeExplain decodes the request. refused is the error of the machine's specification, which
// matters only before the machine is created.
func decodeExplain(req *ExplainRequest, allowed apivalidation.Options) (in *spi.ExplainMachineInput, refused, err error) {
	kubeconfig, identity, err := machineclass.AccessToMachine(req.Machine, req.MachineClass, req.Secret)
	if errors.Is(err, spi.ErrNotFound) { // The name is invalid, which CreateMachine reports as such.
		_, err = machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, req.Secret, allowed)
	}

	if err != nil {
		return nil, nil, err
	}

	in = &spi.ExplainMachineInput{
		Kubeconfig:    kubeconfig,
		Name:          req.Machine.Name,
		Identity:      identity,
		HasProviderID: req.Machine.Spec.ProviderID != "",
		Deleting:      req.Machine.DeletionTimestamp != nil,
		Recorded:      machineclass.RecordedAddress(req.Machine),
		Console:       req.Console,
		ConsoleLines:  req.ConsoleLines,
	}

	if req.Machine.UID != "" && req.Machine.DeletionTimestamp == nil && !hadVirtualMachine(req.Machine) {
		in.Create, refused = machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, req.Secret, allowed)
	}

	return in, refused, nil
}

// hadVirtualMachine reports whether a Machine that is not being deleted has had a VirtualMachine.
// machine-controller-manager sets the provider ID when the machine has been scheduled, and never
// creates a machine with a provider ID again (pkg/util/provider/machinecontroller,
// triggerCreationFlow).
func hadVirtualMachine(machine *v1alpha1.Machine) bool {
	return machine.Spec.ProviderID != "" && machine.DeletionTimestamp == nil
}

// TokenVanished is the reason of a failure that no call of the driver returns:
// machine-controller-manager does not call the driver for a machine that has joined.
const TokenVanished = reasons.MachineVanished

// vanished is the cause for a Machine whose VirtualMachine was deleted externally.
func vanished(found *spi.Explanation, source machineclass.KubeconfigSource) *spi.Cause {
	return &spi.Cause{Err: completed(&spi.Error{
		Kind:    spi.ErrNotFound,
		Reason:  TokenVanished,
		Message: found.Waiting + ", but spec.providerID shows that the Machine had one: it was deleted externally",
	}, source)}
}

// noAction is the remedy of expected responses for an operator.
const noAction = "nothing"

// causeFrom returns a cause as the driver reports it; nil stays nil. It always has a remedy.
func causeFrom(c *spi.Cause, source machineclass.KubeconfigSource) *spi.Cause {
	if c == nil {
		return nil
	}

	e := completed(c.Err, source)
	e.Message = statustext.Fit(e.Message)
	e.Remedy = statustext.Fit(cmp.Or(e.Remedy, noAction))

	return &spi.Cause{Err: e, Since: c.Since, ReportableAt: c.ReportableAt, Sign: c.Sign}
}

// Reportable reports whether a cause is a failure that has lasted for its grace period.
func Reportable(c *spi.Cause, now time.Time) bool {
	failure := meaningOf(c.Err).failure() || c.Err.Reason == TokenVanished

	return failure && !c.ReportableAt.After(now)
}

// Found reports whether an object of the machine exists, or a VirtualMachine of its name that is
// not managed by this driver.
func (e *Explanation) Found() bool {
	return (e.Machine != nil && len(e.Machine.Objects) > 0) || (e.Cause != nil && errors.Is(e.Cause.Err, spi.ErrForeign))
}
