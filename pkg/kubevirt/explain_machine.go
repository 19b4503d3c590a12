package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	corev1 "k8s.io/api/core/v1"

	apivalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
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
	in, refused, err := decodeExplain(req, allowed)
	if err != nil {
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: err})}
	}

	found, err := explainer.ExplainMachine(ctx, in)

	switch {
	case err != nil:
		return &Explanation{Cause: causeFrom(&spi.Cause{Err: err})}
	case found.Stage == spi.StageAbsent && madeBefore(req.Machine):
		return &Explanation{Machine: found, Cause: vanished(found)}
	case found.Stage == spi.StageAbsent && refused != nil:
		return &Explanation{Machine: found, Cause: causeFrom(&spi.Cause{Err: refused})}
	default:
		return &Explanation{Machine: found, Cause: causeFrom(found.Cause)}
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

	in = &spi.ExplainMachineInput{Kubeconfig: to.kubeconfig, Name: req.Machine.Name, Identity: to.identity}

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
		Reason: TokenVanished, Message: found.Waiting + ", and the Machine has had one: somebody else has deleted it",
		Remedy: remedies[TokenVanished], Code: m.code, Err: errVanished,
	}
}

// causeFrom puts a cause in machine-controller-manager's terms; nil stays nil.
func causeFrom(c *spi.Cause) *Cause {
	if c == nil {
		return nil
	}

	m := meaningOf(c.Err)
	reason, message, _ := strings.Cut(m.text(c.Err), ": ")

	remedy := c.Remedy
	if remedy == "" {
		remedy = remedies[reason]
	}

	return &Cause{
		Reason: reason, Message: strings.TrimSuffix(message, "; "+c.Remedy), Remedy: remedy, Code: m.code,
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

// remedies are what to do about the tokens of meanings, in the words of docs/troubleshooting.md. A diagnosis has its own.
var remedies = map[string]string{ //nolint:gosec // These are words about credentials.
	"InvalidInput":        "Correct the fields.",
	"CredentialsRefused":  "Put new credentials into the Secret of the MachineClass.",
	"PermissionDenied":    "Apply kubernetes/provider-namespace anew, or ask for an exception from the policy.",
	"PreconditionFailed":  "Provide what is missing.",
	"ForeignObject":       "Rename or remove it.",
	"QuotaExceeded":       "Raise the quota, or remove machines. The machine recovers by itself.",
	"ProviderUnavailable": "Repair the provider cluster, or the network to it. It is tried again within seconds.",
	"TimedOut":            "Remove what blocks; a dead node as for NodeDown. It goes on meanwhile.",
	"OperationInProgress": "Nothing; it is tried again within seconds.",
	"NotScheduledYet":     "Nothing.",
	"MachineNotFound":     "Nothing.",
	TokenVanished: "Find out who has deleted it. MCM replaces the machine once its Node is gone, or has not been ready for the health " +
		"timeout; to have it sooner, delete the Machine.",
	"Unknown": "Report it.",
}
