package spi

import (
	"context"
	"time"
)

// Explainer says how a machine stands, and from what that is seen, for people. It changes nothing.
type Explainer interface {
	// ExplainMachine looks at a machine once, and closely. What is wrong with the machine is in the explanation. The error wraps
	// ErrForeign if the VirtualMachine of that name is somebody else's, of which nothing is told, ErrAddressChanged if the machine is not
	// at its recorded address, and another sentinel if it cannot be looked at.
	ExplainMachine(ctx context.Context, in *ExplainMachineInput) (*Explanation, error)
}

// ExplainMachineInput says which machine to look at.
type ExplainMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is what the machine's objects must carry.
	Identity Identity
	// HasProviderID says that machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Recorded is what the Machine records of its address; nil: nothing.
	Recorded *AddressRecord
	// Create is what the machine is to be made of. If there is no VirtualMachine, the provider cluster is asked whether it would accept
	// it, in a dry run. Nil: it is not asked.
	Create *CreateMachineInput
}

// Explanation is how a machine stands on the provider cluster.
type Explanation struct {
	// Server and Namespace say where the machine is looked for. The server is a host, with a port if the kubeconfig names one.
	Server, Namespace string
	// Stage is how far the machine has come.
	Stage Stage
	// Objects are those that the machine is made of, the VirtualMachine first. Without any, there is nothing of the machine.
	Objects []Object
	// Signs are all that components say of them, in the order in which they are judged.
	Signs []Sign
	// Cause is what keeps the machine from its next stage; nil if nothing is known to be wrong.
	Cause *Cause
	// Waiting says what the machine waits for if nothing is wrong with it.
	Waiting string
	// Unread says what could not be read, and why. The explanation may lack something then.
	Unread []string
}

// Stage is how far a machine has come.
type Stage string

const (
	// StageAbsent is a machine without a VirtualMachine.
	StageAbsent Stage = "Absent"
	// StageCreating is a machine that was given to no provider node yet.
	StageCreating Stage = "Creating"
	// StageScheduled is a machine that has, or had, its place: it is its Node that is judged from then on.
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

// Object is an object of the provider cluster that was looked at.
type Object struct {
	ObjectName `json:",inline"`

	// Role says what the object is to the machine, if its kind does not.
	Role string `json:"role,omitempty"`
	// State is its status or phase, and what belongs to that, in a few words.
	State string `json:"state"`
	// Created is when it was created.
	Created time.Time `json:"created"`
	// Deleted is when its deletion began; nil if it stays.
	Deleted *time.Time `json:"deleted,omitempty"`
}

// Sign is something that a component says of an object of a machine.
type Sign struct {
	Object ObjectName `json:"object"`
	// Type is a condition's type, "Event", or the part of the object's status that shows it.
	Type string `json:"type"`
	// Status is the condition's status, the event's type, or the value of that part.
	Status string `json:"status,omitempty"`
	// Reason is the component's own token.
	Reason string `json:"reason,omitempty"`
	// Message is what the component says, without credentials.
	Message string `json:"message,omitempty"`
	// Since is when it began, by the clock of the provider cluster.
	Since time.Time `json:"since"`
	// Last is when it was said last; nil if it is said now.
	Last *time.Time `json:"last,omitempty"`
}

// Cause is what is wrong with a machine.
type Cause struct {
	// Err is what the driver says of it. It wraps one of the package's sentinels.
	Err error
	// Remedy says what to do; empty if the error says all.
	Remedy string
	// Since is when it began, and Ripe when it has stood for long enough to be reported; zero if it is reported at once.
	Since, Ripe time.Time
	// Sign is what it was drawn from; nil if it is the answer to a request.
	Sign *Sign
}
