package kubevirt

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// ExplainRequest is a machine as machine-controller-manager hands it to a driver. A Machine without a UID is one that nobody knows any
// more: of its class and Secret only the tags and the kubeconfig count then.
type ExplainRequest struct {
	Machine      *v1alpha1.Machine
	MachineClass *v1alpha1.MachineClass
	Secret       *corev1.Secret
}

// Explanation is the state of a machine, and its failure as the driver reports it.
type Explanation struct {
	// Machine is nil if the provider cluster could not be asked, or if the VirtualMachine of that
	// name is not managed by this driver.
	Machine *spi.Explanation
	// Cause is nil if no failure is known. Its error has a reason, a message and a remedy.
	Cause *spi.Cause
}

// Explain looks at a machine for somebody who wants to know what is wrong with it. mcm-kubevirt shows it to its users. Whatever keeps
// the driver from looking is a cause too: the driver fails in the same way.
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
	case found.Stage == spi.StageAbsent && madeBefore(req.Machine):
		return &Explanation{Machine: found, Cause: vanished(found)}
	case found.Stage == spi.StageAbsent && refused != nil:
		return &Explanation{Machine: found, Cause: causeFrom(&spi.Cause{Err: spi.AsError(refused)}, source)}
	default:
		return &Explanation{Machine: found, Cause: causeFrom(found.Cause, source)}
	}
}

// decodeExplain reads which machine to look at. What is wrong with what the machine is made of, which counts only until it is made, is
// returned apart.
func decodeExplain(req *ExplainRequest, allowed apivalidation.Options) (in *spi.ExplainMachineInput, refused, err error) {
	kubeconfig, identity, err := machineclass.AccessToMachine(req.Machine, req.MachineClass, req.Secret)
	if errors.Is(err, spi.ErrNotFound) { // No VirtualMachine can have its name, which is what CreateMachine refuses.
		_, err = machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, req.Secret, allowed)
	}

	if err != nil {
		return nil, nil, err
	}

	in = &spi.ExplainMachineInput{
		Kubeconfig: kubeconfig, Name: req.Machine.Name, Identity: identity,
		HasProviderID: req.Machine.Spec.ProviderID != "", Recorded: machineclass.RecordedAddress(req.Machine),
	}

	if req.Machine.UID != "" && req.Machine.DeletionTimestamp == nil && !madeBefore(req.Machine) {
		in.Create, refused = machineclass.DecodeCreateMachine(req.Machine, req.MachineClass, req.Secret, allowed)
	}

	return in, refused, nil
}

// madeBefore says whether a Machine that is to stay has had a VirtualMachine: machine-controller-manager writes the provider ID once it was
// given to a provider node, and never creates a machine that has one again (pkg/util/provider/machinecontroller, triggerCreationFlow).
func madeBefore(machine *v1alpha1.Machine) bool {
	return machine.Spec.ProviderID != "" && machine.DeletionTimestamp == nil
}

// TokenVanished is the reason of a failure that no call of the driver returns:
// machine-controller-manager does not call the driver for a machine that has joined.
const TokenVanished = "MachineVanished"

// vanished is the cause for a Machine whose VirtualMachine was deleted externally.
func vanished(found *spi.Explanation) *spi.Cause {
	return &spi.Cause{Err: completed(&spi.Error{
		Kind: spi.ErrNotFound, Reason: TokenVanished,
		Message: found.Waiting + ", but spec.providerID shows that the Machine had one: it was deleted externally",
	}, "")}
}

// causeFrom returns a cause as the driver reports it; nil stays nil. It always has a remedy.
func causeFrom(c *spi.Cause, source machineclass.KubeconfigSource) *spi.Cause {
	if c == nil {
		return nil
	}

	e := completed(c.Err, source)
	if e.Remedy == "" {
		e.Remedy = clause(remedies[e.Reason])
	}

	e.Message, e.Remedy = statustext.Fit(e.Message), statustext.Fit(e.Remedy)

	return &spi.Cause{Err: e, Since: c.Since, ReportableAt: c.ReportableAt, Sign: c.Sign}
}

// Reportable reports whether a cause is a failure that has lasted for its grace period.
func Reportable(c *spi.Cause, now time.Time) bool {
	failure := meaningOf(c.Err).failure() || c.Err.Reason == TokenVanished

	return failure && !c.ReportableAt.After(now)
}

// Found says whether there is something of the machine, or somebody else's VirtualMachine in its place.
func (e *Explanation) Found() bool {
	return (e.Machine != nil && len(e.Machine.Objects) > 0) || (e.Cause != nil && errors.Is(e.Cause.Err, spi.ErrForeign))
}
