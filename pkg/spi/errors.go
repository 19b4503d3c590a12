package spi

import "errors"

// The sentinels classify errors for machine-controller-manager; pkg/kubevirt maps each to one
// machine code. An error wraps exactly one of them, and begins with its text.
var (
	// ErrInvalid means that the input can never work: the user has to change it.
	ErrInvalid = errors.New("invalid input")
	// ErrNotFound means that the machine does not exist, or is not managed by this driver.
	ErrNotFound = errors.New("machine not found")
	// ErrForeign means that an object with the machine's name exists but is not managed by this
	// driver. It is never touched.
	ErrForeign = errors.New("object belongs to somebody else")
	// ErrUninitialized means that the machine exists but has not been scheduled yet.
	ErrUninitialized = errors.New("machine not scheduled yet")
	// ErrConflict means that another operation on the machine is in progress: try again soon.
	ErrConflict = errors.New("operation in progress")
	// ErrExhausted means that the provider cluster lacks capacity or quota for the machine.
	ErrExhausted = errors.New("resources exhausted")
	// ErrUnauthenticated means that the provider cluster refuses the credentials.
	ErrUnauthenticated = errors.New("credentials refused")
	// ErrForbidden means that the credentials lack a permission.
	ErrForbidden = errors.New("permission denied")
	// ErrPrecondition means that the provider cluster lacks a prerequisite of the
	// machine, until it is provided.
	ErrPrecondition = errors.New("precondition failed")
	// ErrAddressChanged means that a machine was created at another address than the present one,
	// where it cannot be found: it may still be running. An operator has to restore the address, or
	// give up the machine.
	ErrAddressChanged = errors.New("address changed")
	// ErrUnavailable means that the provider cluster did not respond properly, for longer than a
	// transient failure lasts.
	ErrUnavailable = errors.New("provider cluster unavailable")
	// ErrTimeout means that an operation continues, but has not ended in time.
	ErrTimeout = errors.New("timed out")
)

// WithRemedy returns an error whose text ends with the remedy: a command, or the field or object to
// change. RemedyOf returns it.
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

// KubeconfigError is a fault in the kubeconfig of the provider cluster, or in its credentials. The
// layers below pkg/kubevirt do not know the Secret that contains the kubeconfig: pkg/kubevirt adds
// its name to this error.
type KubeconfigError struct {
	Err error
}

// Error returns the fault.
func (e *KubeconfigError) Error() string { return e.Err.Error() }

// Unwrap returns the fault.
func (e *KubeconfigError) Unwrap() error { return e.Err }
