package main

import (
	"errors"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// diagnoses is the output of diagnose. Scripts depend on it: fields may be added, but never change.
type diagnoses struct {
	Machines []diagnosis `json:"machines"`
}

// result is the summary of a diagnosis.
type result string

const (
	// resultNothingWrong means that no cause was found.
	resultNothingWrong result = "NothingWrong"
	// resultSuspected means that there is a cause, but not for long enough to be a failure.
	resultSuspected result = "Suspected"
	// resultCauseFound means that there is a cause.
	resultCauseFound result = "CauseFound"
	// resultUnknown means that the machine could not be diagnosed.
	resultUnknown result = "Unknown"
)

// diagnosis is the diagnosis of one machine.
type diagnosis struct {
	Name   string `json:"name"`
	Result result `json:"result"`
	// Error is why the machine could not be diagnosed.
	Error string `json:"error,omitempty"`
	// Machine is nil if there is no Machine.
	Machine *machineState `json:"machine,omitempty"`
	// Provider is nil if the provider cluster could not be read, or has only a foreign
	// VirtualMachine of that name.
	Provider *providerState `json:"provider,omitempty"`
	// WaitingFor is the step that the machine waits for; set if no cause was found.
	WaitingFor string `json:"waitingFor,omitempty"`
	// Cause is the cause to repair first, and MoreCauses are the others.
	Cause      *causeReport   `json:"cause,omitempty"`
	MoreCauses []*causeReport `json:"moreCauses,omitempty"`
	// Control is the state in the control cluster; nil if there is no Machine.
	Control *controlState `json:"control,omitempty"`
	// Evidence is everything that components report about the machine's objects.
	Evidence []spi.Sign `json:"evidence"`
}

// machineState is the state of a Machine according to machine-controller-manager.
type machineState struct {
	Namespace     string         `json:"namespace"`
	Class         string         `json:"class"`
	Phase         string         `json:"phase"`
	PhaseSince    *time.Time     `json:"phaseSince,omitempty"`
	Created       time.Time      `json:"created"`
	Deleted       *time.Time     `json:"deleted,omitempty"`
	LastOperation *lastOperation `json:"lastOperation,omitempty"`
	// NodeReady is the condition Ready of the Machine's Node, if it has one.
	NodeReady *nodeReady `json:"nodeReady,omitempty"`
}

type lastOperation struct {
	Type        string    `json:"type"`
	State       string    `json:"state"`
	Code        string    `json:"code,omitempty"`
	Description string    `json:"description"`
	Updated     time.Time `json:"updated"`
}

type nodeReady struct {
	Status string    `json:"status"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// providerState is the state of the machine on the provider cluster.
type providerState struct {
	Server    string       `json:"server"`
	Namespace string       `json:"namespace"`
	Stage     spi.Stage    `json:"stage"`
	Objects   []spi.Object `json:"objects"`
	// Unread lists the objects that could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// causeReport describes a cause.
type causeReport struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Code is the machine code that the driver returns; empty if the driver is not called.
	Code   string `json:"code"`
	Remedy string `json:"remedy"`
	// Since is when the cause began, and Reported when it has lasted long enough to be reported.
	// Since is nil for an error returned by a request.
	Since    *time.Time `json:"since,omitempty"`
	Reported *time.Time `json:"reported,omitempty"`
	// Evidence is the evidence for the cause; nil for an error returned by a request.
	Evidence *spi.Sign `json:"evidence,omitempty"`
	// Retry is when machine-controller-manager acts again; nil if there is no Machine.
	Retry *retryHint `json:"retry,omitempty"`
}

func newDiagnosis(name string, found *foundMachine) diagnosis {
	d := diagnosis{Name: name, Result: resultNothingWrong, Evidence: []spi.Sign{}}

	if found.machine != nil {
		d.Machine = stateOf(found.machine)
	}

	return d
}

func stateOf(m *v1alpha1.Machine) *machineState {
	state := &machineState{
		Namespace: m.Namespace, Class: m.Spec.Class.Name, Phase: string(m.Status.CurrentStatus.Phase),
		PhaseSince: timeOrNil(m.Status.CurrentStatus.LastUpdateTime.Time), Created: m.CreationTimestamp.Time,
	}

	if m.DeletionTimestamp != nil {
		state.Deleted = &m.DeletionTimestamp.Time
	}

	if last := &m.Status.LastOperation; last.Type != "" {
		state.LastOperation = &lastOperation{
			Type: string(last.Type), State: string(last.State), Code: last.ErrorCode,
			Description: statustext.Printable(last.Description), Updated: last.LastUpdateTime.Time,
		}
	}

	for i := range m.Status.Conditions {
		if c := &m.Status.Conditions[i]; c.Type == corev1.NodeReady {
			state.NodeReady = &nodeReady{Status: string(c.Status), Reason: statustext.Printable(c.Reason), Since: c.LastTransitionTime.Time}
		}
	}

	return state
}

// addExplanation adds the state on the provider cluster. If overridden credentials, which are not
// the driver's, cannot read it, that is not a cause.
func (d *diagnosis) addExplanation(e *kubevirt.Explanation, overridden bool, now time.Time) {
	if e.Machine != nil {
		d.addState(e.Machine)
	}

	switch cause := e.Cause; {
	case cause == nil && e.Machine.Stage == spi.StageAbsent && d.Machine == nil && !e.Found():
		d.Result, d.Error = resultUnknown, "the Machine does not exist, and "+d.WaitingFor
	case cause == nil:
	case e.Machine == nil && overridden && !errors.Is(cause.Err, spi.ErrForeign):
		d.Result, d.Error = resultUnknown, statustext.Printable(cause.Err.Reason+": "+cause.Err.Message)
	case kubevirt.Reportable(cause, now):
		d.Result, d.Cause, d.WaitingFor = resultCauseFound, reportOf(cause), ""
	default:
		d.Result, d.Cause = resultSuspected, reportOf(cause)
	}
}

// addRetry adds when machine-controller-manager calls the driver again.
func (d *diagnosis) addRetry(found *foundMachine, e *kubevirt.Explanation) {
	if d.Cause == nil || e.Cause == nil {
		return
	}

	var stage spi.Stage
	if e.Machine != nil {
		stage = e.Machine.Stage
	}

	d.Cause.Retry = found.retryOf(e.Cause.Err, stage)
}

// addControl adds the state in the control cluster. Its causes come first:
// nothing else can be repaired before them.
func (d *diagnosis) addControl(control *controlState, causes []*causeReport) {
	d.Control = control

	if len(causes) == 0 || d.Result == resultUnknown {
		return
	}

	if d.Cause != nil && d.Result == resultCauseFound {
		causes = append(causes, d.Cause)
	}

	d.Result, d.WaitingFor = resultCauseFound, ""
	d.Cause, d.MoreCauses = causes[0], causes[1:]
}

// addUnread adds the places that could not be searched. If the machine was not
// found elsewhere, it may be in one of them.
func (d *diagnosis) addUnread(e *kubevirt.Explanation, unread []string) {
	switch {
	case len(unread) == 0:
	case !e.Found():
		d.Result, d.Cause = resultUnknown, nil
		d.Error = statustext.Printable("the Machine does not exist, and no VirtualMachine was found" + notRead(unread))
	case d.Provider != nil:
		for _, text := range unread {
			d.Provider.Unread = append(d.Provider.Unread, statustext.Printable(text))
		}
	}
}

// notRead returns the end of a sentence about a search without result.
func notRead(unread []string) string {
	if len(unread) == 0 {
		return ""
	}

	return "; not read: " + strings.Join(unread, "; ")
}

func (d *diagnosis) addState(m *spi.Explanation) {
	d.Provider = &providerState{Server: statustext.Printable(m.Server), Namespace: statustext.Printable(m.Namespace), Stage: m.Stage, Objects: []spi.Object{}}
	d.WaitingFor = statustext.Printable(m.Waiting) + d.node(m.Stage)

	for _, o := range m.Objects {
		o.ObjectName, o.State = printableName(o.ObjectName), statustext.Printable(o.State)
		d.Provider.Objects = append(d.Provider.Objects, o)
	}

	for i := range m.Signs {
		d.Evidence = append(d.Evidence, printableSign(&m.Signs[i]))
	}

	for _, unread := range m.Unread {
		d.Provider.Unread = append(d.Provider.Unread, statustext.Printable(unread))
	}
}

// node describes what machine-controller-manager waits for after a machine is scheduled.
func (d *diagnosis) node(stage spi.Stage) string {
	switch {
	case stage != spi.StageScheduled || d.Machine == nil:
		return ""
	case d.Machine.Deleted != nil:
		return "; machine-controller-manager drains its Node, and then deletes the machine"
	case d.Machine.Phase == string(v1alpha1.MachineRunning):
		return ", and its Node is healthy"
	default:
		return "; machine-controller-manager waits for its Node to become ready: check the guest's console (virtctl console)"
	}
}

func reportOf(c *spi.Cause) *causeReport {
	r := &causeReport{
		Reason: c.Err.Reason, Message: statustext.Printable(c.Err.Message), Code: kubevirt.CodeOf(c.Err).String(), Remedy: c.Err.Remedy,
		Since: timeOrNil(c.Since), Reported: timeOrNil(c.ReportableAt),
	}

	if c.Sign != nil {
		r.Evidence = ptr.To(printableSign(c.Sign))
	}

	return r
}

// timeOrNil returns nil for the zero time.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}

	return &t
}

func printableSign(s *spi.Sign) spi.Sign {
	return spi.Sign{
		Object: printableName(s.Object), Type: statustext.Printable(s.Type), Status: statustext.Printable(s.Status), Reason: statustext.Printable(s.Reason),
		Message: statustext.Printable(s.Message), Since: s.Since, Last: s.Last,
	}
}

func printableName(n spi.ObjectName) spi.ObjectName {
	return spi.ObjectName{Kind: statustext.Printable(n.Kind), Namespace: statustext.Printable(n.Namespace), Name: statustext.Printable(n.Name)}
}
