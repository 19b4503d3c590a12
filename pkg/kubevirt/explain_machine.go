package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	corev1 "k8s.io/api/core/v1"

	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
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

// Explanation is how a machine stands, and what the driver says of it to machine-controller-manager.
type Explanation struct {
	// Machine is nil if the provider cluster could not be asked, or if the VirtualMachine of that name is somebody else's.
	Machine *spi.Explanation
	// Cause is nil if nothing is known to be wrong.
	Cause *Cause
}

// Cause is what is wrong with a machine, in the terms of machine-controller-manager.
type Cause struct {
	// Reason is the token that leads the driver's text. docs/troubleshooting.md has a row for each.
	Reason string
	// Message is what the component that refused said, and Remedy what to do.
	Message, Remedy string
	// Code is the machine code.
	Code codes.Code
	// Since is when it began, and Ripe when it has stood for long enough to be reported; zero if it is reported at once.
	Since, Ripe time.Time
	// Sign is what the cause was drawn from; nil if it is the answer to a request.
	Sign *spi.Sign
	// Err is the error that the driver would return before it is put in machine-controller-manager's terms.
	Err error
}

// Explain looks at a machine for somebody who wants to know what is wrong with it. mcm-kubevirt shows it to its users. Whatever keeps
// the driver from looking is a cause too: the driver fails in the same way.
func Explain(ctx context.Context, explainer spi.Explainer, req *ExplainRequest, allowed apivalidation.Options) *Explanation {
	used := sourceOf(req.MachineClass, req.Secret)

	in, refused, err := decodeExplain(req, allowed)
	if err != nil {
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: err}, used)}
	}

	found, err := explainer.ExplainMachine(ctx, in)

	switch {
	case err != nil:
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: err}, used)}
	case found.Stage == spi.StageAbsent && madeBefore(req.Machine):
		return &Explanation{Machine: found, Cause: vanished(found)}
	case found.Stage == spi.StageAbsent && refused != nil:
		return &Explanation{Machine: found, Cause: causeFrom(&spi.Cause{Err: refused}, used)}
	default:
		return &Explanation{Machine: found, Cause: causeFrom(found.Cause, used)}
	}
}

// decodeExplain reads which machine to look at. What is wrong with what the machine is made of, which counts only until it is made, is
// returned apart.
func decodeExplain(req *ExplainRequest, allowed apivalidation.Options) (in *spi.ExplainMachineInput, refused, err error) {
	create := &driver.CreateMachineRequest{Machine: req.Machine, MachineClass: req.MachineClass, Secret: req.Secret}

	to, err := decodeTarget(req.Machine, req.MachineClass, req.Secret)
	if errors.Is(err, spi.ErrNotFound) { // No VirtualMachine can have its name, which is what CreateMachine refuses.
		_, err = DecodeCreateMachine(create, allowed)
	}

	if err != nil {
		return nil, nil, err
	}

	in = &spi.ExplainMachineInput{
		Kubeconfig: to.kubeconfig, Name: req.Machine.Name, Identity: to.identity,
		HasProviderID: req.Machine.Spec.ProviderID != "", Recorded: recordedAddress(req.Machine),
	}

	if req.Machine.UID != "" && req.Machine.DeletionTimestamp == nil && !madeBefore(req.Machine) {
		in.Create, refused = DecodeCreateMachine(create, allowed)
	}

	return in, refused, nil
}

// madeBefore says whether a Machine that is to stay has had a VirtualMachine: machine-controller-manager writes the provider ID once it was
// given to a provider node, and never creates a machine that has one again (pkg/util/provider/machinecontroller, triggerCreationFlow).
func madeBefore(machine *v1alpha1.Machine) bool {
	return machine.Spec.ProviderID != "" && machine.DeletionTimestamp == nil
}

// TokenVanished is the reason of the cause that no call of the driver returns: machine-controller-manager asks for no machine that has
// joined.
const TokenVanished = "MachineVanished"

// errVanished is what the driver would answer, and a failure nevertheless.
var errVanished = fmt.Errorf("%w, and was there before", spi.ErrNotFound)

// vanished is the cause of a machine that lost its VirtualMachine without anybody deleting its Machine.
func vanished(found *spi.Explanation) *Cause {
	m := meaningOf(errVanished)

	return &Cause{
		Reason: TokenVanished, Message: found.Waiting + ", but spec.providerID shows that the Machine had one: it was deleted externally",
		Remedy: clause(remedies[TokenVanished]), Code: m.code, Err: errVanished,
	}
}

// causeFrom puts a cause in machine-controller-manager's terms; nil stays nil.
func causeFrom(c *spi.Cause, used kubeconfigSource) *Cause {
	if c == nil {
		return nil
	}

	m := meaningOf(c.Err)
	reason, message, remedy := m.parts(c.Err, used)

	switch {
	case c.Remedy != "": // Those who look for people may know more than the driver says.
		remedy = c.Remedy
	case remedy == "":
		remedy = clause(remedies[reason])
	}

	return &Cause{
		Reason: reason, Message: statustext.Fit(message), Remedy: statustext.Fit(remedy), Code: m.code,
		Since: c.Since, Ripe: c.Ripe, Sign: c.Sign, Err: c.Err,
	}
}

// Stands says whether the cause is a failure, and has stood for long enough to be reported as one.
func (c *Cause) Stands(now time.Time) bool {
	failure := meaningOf(c.Err).failure() || errors.Is(c.Err, errVanished)

	return failure && !c.Ripe.After(now)
}

// Foreign says whether it is somebody else's object that is in the way.
func (c *Cause) Foreign() bool {
	return errors.Is(c.Err, spi.ErrForeign)
}

// Found says whether there is something of the machine, or somebody else's VirtualMachine in its place.
func (e *Explanation) Found() bool {
	return (e.Machine != nil && len(e.Machine.Objects) > 0) || (e.Cause != nil && e.Cause.Foreign())
}
