package spi

import "errors"

// The sentinels say what an error means to machine-controller-manager; pkg/kubevirt maps each to one machine code. An error
// wraps exactly one of them, and begins with its text.
var (
	// ErrInvalid means that the input can never work: the user has to change it.
	ErrInvalid = errors.New("invalid input")
	// ErrNotFound means that the machine does not exist, or is not ours.
	ErrNotFound = errors.New("machine not found")
	// ErrForeign means that an object of the machine's name exists and is not ours. It is never touched.
	ErrForeign = errors.New("object belongs to somebody else")
	// ErrUninitialized means that the machine exists but was not scheduled yet.
	ErrUninitialized = errors.New("machine not scheduled yet")
	// ErrConflict means that another operation on the machine is under way: ask again soon.
	ErrConflict = errors.New("operation in progress")
	// ErrExhausted means that the provider cluster has no room, or no quota, for the machine.
	ErrExhausted = errors.New("resources exhausted")
	// ErrUnauthenticated means that the provider cluster refuses the credentials.
	ErrUnauthenticated = errors.New("credentials refused")
	// ErrForbidden means that the credentials lack a right.
	ErrForbidden = errors.New("permission denied")
	// ErrPrecondition means that the provider cluster lacks what the machine needs, until somebody provides it.
	ErrPrecondition = errors.New("precondition failed")
	// ErrAddressChanged means that a machine was made at another address than the present one, where it cannot be found: it may well
	// run on. A person has to restore the address, or give the machine up.
	ErrAddressChanged = errors.New("address changed")
	// ErrUnavailable means that the provider cluster did not answer properly for longer than a blip.
	ErrUnavailable = errors.New("provider cluster unavailable")
	// ErrTimeout means that an operation goes on, but has not ended in its time.
	ErrTimeout = errors.New("timed out")
)

// WithRemedy returns an error whose text ends with the remedy: a command, or the field or object to change. RemedyOf returns it.
func WithRemedy(err error, remedy string) error {
	return &remediedError{err: err, remedy: remedy}
}

type remediedError struct {
	err    error
	remedy string
}

func (e *remediedError) Error() string { return e.err.Error() + "; " + e.remedy }

func (e *remediedError) Unwrap() error { return e.err }

// RemedyText implements Remedied.
func (e *remediedError) RemedyText() string { return e.remedy }

// Remedied is an error whose text ends with a remedy.
type Remedied interface {
	error
	// RemedyText returns the remedy alone.
	RemedyText() string
}

// RemedyOf returns the remedy that the text of an error ends with; empty if the error has none.
func RemedyOf(err error) string {
	var remedied Remedied
	if errors.As(err, &remedied) {
		return remedied.RemedyText()
	}

	return ""
}

// KubeconfigError is a fault in the kubeconfig of the provider cluster, or in the credentials in it. Below pkg/kubevirt the Secret that
// holds the kubeconfig is not known: pkg/kubevirt names it when it finds this error.
type KubeconfigError struct {
	Err error
}

// Error returns the fault.
func (e *KubeconfigError) Error() string { return e.Err.Error() }

// Unwrap returns the fault.
func (e *KubeconfigError) Unwrap() error { return e.Err }
