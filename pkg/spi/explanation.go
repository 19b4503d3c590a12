// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

import (
	"context"
	"time"
)

// Explainer reports the state of a machine to operators, and the evidence for it. It changes
// nothing.
type Explainer interface {
	// ExplainMachine examines a machine once, in detail. Problems of the machine are in the
	// explanation. The error wraps ErrForeign if the VirtualMachine of that name is not managed by
	// this driver, in which case nothing is reported about it, ErrAddressChanged if the machine is
	// not at its recorded address, and another sentinel if it cannot be examined.
	ExplainMachine(ctx context.Context, in *ExplainMachineInput) (*Explanation, error)
}

// VolumesExplainer reports the state of volumes to operators. It changes nothing.
type VolumesExplainer interface {
	// ExplainVolumes examines volumes that are attached to running machines. The error wraps one of the
	// package's sentinels.
	ExplainVolumes(ctx context.Context, in *ExplainVolumesInput) (*VolumesExplanation, error)
}

// ExplainVolumesInput selects the volumes to examine.
type ExplainVolumesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Labels select the DataVolumes.
	Labels map[string]string
	// Cluster is the tag of the shoot, with which the claims of deleted machines are found; empty if they
	// are not of interest.
	Cluster string
}

// VolumesExplanation is the state of volumes on the provider cluster.
type VolumesExplanation struct {
	// Count is the number of volumes.
	Count int
	// Incomplete are the volumes without content yet, and claims that are left after their deletion. The
	// latter are known only with permission to list claims.
	Incomplete []IncompleteVolume
	// Unread lists the objects that could not be read, and why.
	Unread []string
}

// IncompleteVolume is a volume without content yet, or a claim that is left after its deletion.
type IncompleteVolume struct {
	Object
	// Cause is its problem; nil if none is known.
	Cause *Cause
}

// ExplainMachineInput identifies the machine to examine.
type ExplainMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is the identity that the machine's objects must have.
	Identity Identity
	// HasProviderID is set if machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Deleting is set if the Machine is being deleted.
	Deleting bool
	// Recorded is the address that the Machine records; nil if there is none.
	Recorded *RecordedAddress
	// Console is set to read the serial console of a machine with a provider node, and the events about its
	// guest: the machine has not joined. The driver's Role does not permit it.
	Console bool
	// ConsoleLines is set to show whole lines of the console, which may contain secrets.
	ConsoleLines bool
	// Create is the specification of the machine. If there is no VirtualMachine, a dry run checks
	// whether the provider cluster would accept it. There is no dry run if it is nil.
	Create *CreateMachineInput
}

// Explanation is the state of a machine on the provider cluster.
type Explanation struct {
	// Server and Namespace are the place where the driver looks for the machine. Server is a host,
	// with a port if the kubeconfig names one.
	Server, Namespace string
	// Stage is the machine's stage.
	Stage Stage
	// GuestRuns is set if the machine's guest runs, so that it has a console.
	GuestRuns bool
	// Objects are the machine's objects, the VirtualMachine first; empty if it has none.
	Objects []Object
	// Signs are all reports of components about the objects, in the order of their evaluation.
	Signs []Sign
	// Cause is the problem that keeps the machine from its next stage; nil if none is known.
	Cause *Cause
	// Waiting describes what the machine waits for if it has no problem.
	Waiting string
	// Unread lists the objects that could not be read, and why. The
	// explanation may then be incomplete.
	Unread []string
}

// Stage is the progress of a machine.
type Stage string

const (
	// StageAbsent is a machine without a VirtualMachine.
	StageAbsent Stage = "Absent"
	// StageCreating is a machine that has not been assigned to a provider node yet.
	StageCreating Stage = "Creating"
	// StageScheduled is a machine that has, or had, a provider node: from then on,
	// machine-controller-manager monitors its Node.
	StageScheduled Stage = "Scheduled"
	// StageDeleting is a machine whose VirtualMachine is being deleted.
	StageDeleting Stage = "Deleting"
)

// ObjectName names an object of the provider cluster.
type ObjectName struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Object is an object of the provider cluster that was examined.
type Object struct {
	ObjectName `json:",inline"`

	// Role is the object's role for the machine, if its kind does not show it.
	Role string `json:"role,omitempty"`
	// State is its status or phase with related details, in a few words.
	State string `json:"state"`
	// Created is when it was created.
	Created time.Time `json:"created"`
	// Deleted is when its deletion began; nil if it is not being deleted.
	Deleted *time.Time `json:"deleted,omitempty"`
}

// Sign is a component's report about an object of a machine.
type Sign struct {
	Object ObjectName `json:"object"`
	// Type is a condition's type, "Event", or the part of the object's status that shows it.
	Type string `json:"type"`
	// Status is the condition's status, the event's type, or the value of that part.
	Status string `json:"status,omitempty"`
	// Reason is the component's own token.
	Reason string `json:"reason,omitempty"`
	// Message is the component's message, without credentials.
	Message string `json:"message,omitempty"`
	// Since is when it began, by the clock of the provider cluster.
	Since time.Time `json:"since"`
	// Last is when it was last reported; nil if it is still reported.
	Last *time.Time `json:"last,omitempty"`
}

// Cause is the failure that keeps a machine from its next stage.
type Cause struct {
	// Err is the failure, as the driver returns it.
	Err *Error
	// Since is when the failure began, by the clock of the provider cluster; zero for the response
	// to a request.
	Since time.Time
	// ReportableAt is when the failure has lasted for its grace period: until then it may be
	// transient and must not be reported. It is zero for the response to a request.
	ReportableAt time.Time
	// Sign is the report from which the cause was derived; nil for the response to a request.
	Sign *Sign
}
