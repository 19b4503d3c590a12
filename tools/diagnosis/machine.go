// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnosis finds the causes of failures of machines and Shoots, with the evidence for them, as data. The
// command diagnose prints it. It must not print.
package diagnosis

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Report is the output of diagnose. Scripts depend on it: fields may be added, but never change.
type Report struct {
	Machines []Machine `json:"machines"`
	// Deployments are the MachineDeployments that machine-controller-manager does not act on. They are read
	// together with all Machines.
	Deployments []Deployment `json:"machineDeployments,omitempty"`
	// Unread lists what could not be read beside the Machines, and why.
	Unread []string `json:"unread,omitempty"`
}

// Result is the summary of a diagnosis.
type Result string

const (
	// ResultNothingWrong means that no cause was found.
	ResultNothingWrong Result = "NothingWrong"
	// ResultSuspected means that a cause was found that has not lasted long enough to be a failure.
	ResultSuspected Result = "Suspected"
	// ResultCauseFound means that a cause was found.
	ResultCauseFound Result = "CauseFound"
	// ResultUnknown means that the machine could not be diagnosed.
	ResultUnknown Result = "Unknown"
)

// Machine is the diagnosis of one machine.
type Machine struct {
	// Namespace is that of the Machine in the control cluster; empty without one.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Result    Result `json:"result"`
	// Error is why the machine could not be diagnosed.
	Error string `json:"error,omitempty"`
	// Machine is nil if there is no Machine.
	Machine *MachineState `json:"machine,omitempty"`
	// Provider is nil if the provider cluster could not be read, or has only a foreign
	// VirtualMachine of that name.
	Provider *ProviderState `json:"provider,omitempty"`
	// WaitingFor is the step that the machine waits for; set if no cause was found.
	WaitingFor string `json:"waitingFor,omitempty"`
	// Cause is the cause to repair first, and MoreCauses are the others.
	Cause      *Cause   `json:"cause,omitempty"`
	MoreCauses []*Cause `json:"moreCauses,omitempty"`
	// Control is the state in the control cluster; nil if there is no Machine.
	Control *ControlState `json:"control,omitempty"`
	// Evidence is everything that components report about the machine's objects.
	Evidence []spi.Sign `json:"evidence"`
}

// MachineState is the state of a Machine according to machine-controller-manager.
type MachineState struct {
	Namespace     string         `json:"namespace"`
	Class         string         `json:"class"`
	Phase         string         `json:"phase"`
	PhaseSince    *time.Time     `json:"phaseSince,omitempty"`
	Created       time.Time      `json:"created"`
	Deleted       *time.Time     `json:"deleted,omitempty"`
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// NodeReady is the condition Ready of the Machine's Node, if it has one.
	NodeReady *nodeReady `json:"nodeReady,omitempty"`
}

// LastOperation is the last operation of machine-controller-manager on a Machine.
type LastOperation struct {
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

// ProviderState is the state of the machine on the provider cluster.
type ProviderState struct {
	Server    string       `json:"server"`
	Namespace string       `json:"namespace"`
	Stage     spi.Stage    `json:"stage"`
	Objects   []spi.Object `json:"objects"`
	// Unread lists the objects that could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// Cause describes a cause.
type Cause struct {
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
	Retry *Retry `json:"retry,omitempty"`
}

// stateOf returns the state of a Machine; nil for none.
func stateOf(m *v1alpha1.Machine) *MachineState {
	if m == nil {
		return nil
	}

	state := &MachineState{
		Namespace:  m.Namespace,
		Class:      m.Spec.Class.Name,
		Phase:      string(m.Status.CurrentStatus.Phase),
		PhaseSince: timeOrNil(m.Status.CurrentStatus.LastUpdateTime.Time),
		Created:    m.CreationTimestamp.Time,
	}

	if m.DeletionTimestamp != nil {
		state.Deleted = &m.DeletionTimestamp.Time
	}

	if last := &m.Status.LastOperation; last.Type != "" {
		state.LastOperation = &LastOperation{
			Type:        string(last.Type),
			State:       string(last.State),
			Code:        last.ErrorCode,
			Description: last.Description,
			Updated:     last.LastUpdateTime.Time,
		}
	}

	for i := range m.Status.Conditions {
		if c := &m.Status.Conditions[i]; c.Type == corev1.NodeReady {
			state.NodeReady = &nodeReady{Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time}
		}
	}

	return state
}

// addExplanation adds the state on the provider cluster.
func (d *Machine) addExplanation(found *foundMachine, e *kubevirt.Explanation, now time.Time) {
	if e.Machine != nil {
		d.addState(e, found.unread)
	}

	switch {
	case found.otherServer != "" && !e.Found():
		d.fail(found.otherServer)
	case len(found.unread) > 0 && !e.Found(): // The machine may be on a cluster that was not read.
		d.fail("the Machine does not exist, and no VirtualMachine was found" + notRead(found.unread))
	case e.Cause != nil:
		d.addCause(found, e, now)
	case d.Machine == nil && !e.Found() && e.Machine.Stage == spi.StageAbsent:
		d.fail("the Machine does not exist, and " + d.WaitingFor)
	}
}

func (d *Machine) addCause(found *foundMachine, e *kubevirt.Explanation, now time.Time) {
	// The driver may have other credentials.
	if e.Machine == nil && found.overridden && !errors.Is(e.Cause.Err, spi.ErrForeign) {
		d.fail(e.Cause.Err.Reason + ": " + e.Cause.Err.Message)

		return
	}

	var stage spi.Stage
	if e.Machine != nil {
		stage = e.Machine.Stage
	}

	d.Cause = found.report(e.Cause, stage)
	d.Result = ResultSuspected

	if kubevirt.Reportable(e.Cause, now) {
		d.Result = ResultCauseFound
		d.WaitingFor = ""
	}
}

// fail sets the reason why the machine could not be diagnosed.
func (d *Machine) fail(reason string) {
	d.Result = ResultUnknown
	d.Error = reason
}

// addControl adds the state in the control cluster. Its causes come first:
// nothing else can be repaired before them.
func (d *Machine) addControl(control *ControlState, causes []*Cause) {
	d.Control = control

	if len(causes) == 0 || d.Result == ResultUnknown {
		return
	}

	if d.Cause != nil && d.Result == ResultCauseFound {
		causes = append(causes, d.Cause)
	}

	d.Result = ResultCauseFound
	d.WaitingFor = ""
	d.Cause = causes[0]
	d.MoreCauses = causes[1:]
}

// Causes returns all causes.
func (d *Machine) Causes() []*Cause {
	if d.Cause == nil {
		return nil
	}

	return append([]*Cause{d.Cause}, d.MoreCauses...)
}

// notRead returns the end of a message about a search without results.
func notRead(unread []string) string {
	if len(unread) == 0 {
		return ""
	}

	return "; not read: " + strings.Join(unread, "; ")
}

func (d *Machine) addState(e *kubevirt.Explanation, unread []string) {
	m := e.Machine
	d.Provider = &ProviderState{
		Server:    m.Server,
		Namespace: m.Namespace,
		Stage:     m.Stage,
		Objects:   append([]spi.Object{}, m.Objects...),
		Unread:    slices.Clone(m.Unread),
	}
	d.WaitingFor = m.Waiting + d.node(m)
	d.Evidence = append(d.Evidence, m.Signs...)

	if e.Found() {
		d.Provider.Unread = append(d.Provider.Unread, unread...)
	}
}

// node describes what machine-controller-manager waits for after a machine is scheduled.
func (d *Machine) node(m *spi.Explanation) string {
	switch {
	case m.Stage != spi.StageScheduled || d.Machine == nil:
		return ""
	case d.Machine.Deleted != nil:
		return "; machine-controller-manager drains its Node, and then deletes the machine"
	case !m.GuestRuns:
		return "; its guest does not run"
	case d.Machine.Phase == string(v1alpha1.MachineRunning):
		return ", and its Node is healthy"
	default:
		return "; machine-controller-manager waits for its Node to become ready: check the guest's console (virtctl console; with --provider-kubeconfig, this command reads it)"
	}
}

// report describes a cause, and when machine-controller-manager calls the driver again.
func (f *foundMachine) report(c *spi.Cause, stage spi.Stage) *Cause {
	r := &Cause{
		Reason:   c.Err.Reason,
		Message:  c.Err.Message,
		Code:     kubevirt.CodeOf(c.Err).String(),
		Remedy:   c.Err.Remedy,
		Since:    timeOrNil(c.Since),
		Reported: timeOrNil(c.ReportableAt),
		Retry:    f.retryOf(c.Err, stage),
	}

	if c.Sign != nil {
		r.Evidence = ptr.To(*c.Sign)
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
