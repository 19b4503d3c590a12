// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

import (
	"errors"
	"fmt"
	"slices"
)

// The sentinels classify errors for machine-controller-manager; pkg/kubevirt maps each to one
// machine code. Each error of this layer is an Error of one of these kinds.
var (
	// ErrInvalid means that the input can never work: the user has to change it.
	ErrInvalid = errors.New("invalid input")
	// ErrNotFound means that the machine does not exist, or is not managed by this driver.
	ErrNotFound = errors.New("machine not found")
	// ErrForeign means that an object with the machine's name exists but is not managed by this
	// driver. It is never touched.
	ErrForeign = errors.New("object is not managed by this driver")
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
	// ErrPrecondition means that the provider cluster lacks a prerequisite of the machine, which an
	// operator has to provide.
	ErrPrecondition = errors.New("precondition failed")
	// ErrAddressChanged means that a machine is not found at the present address, but was created
	// at another one: it may still be running. An operator has to restore the address, or abandon
	// the machine.
	ErrAddressChanged = errors.New("address changed")
	// ErrUnavailable means that the provider cluster did not respond properly, for longer than a
	// transient failure lasts.
	ErrUnavailable = errors.New("provider cluster unavailable")
	// ErrTimeout means that an operation continues, but has not ended in time.
	ErrTimeout = errors.New("timed out")
)

// kinds are all sentinels.
var kinds = []error{
	ErrInvalid, ErrNotFound, ErrForeign, ErrUninitialized, ErrConflict, ErrExhausted, ErrUnauthenticated, ErrForbidden,
	ErrPrecondition, ErrAddressChanged, ErrUnavailable, ErrTimeout,
}

// Error is a failure as a value. The layer that detects a failure fills in what it knows, and
// pkg/kubevirt adds the defaults and formats it for machine-controller-manager and for Events.
type Error struct {
	// Kind is one of the sentinels. It determines the machine code.
	Kind error
	// Reason is a stable CamelCase token, suitable for matching. It is empty for a failure that its
	// kind describes sufficiently.
	Reason string
	// Message describes the failure, without the kind, the reason and the remedy.
	Message string
	// Remedy is the action to take: a command, or the field or object to change. It is the end of a
	// sentence; empty if the remedy of the reason applies.
	Remedy string
	// Kubeconfig is set if the kubeconfig of the provider cluster has to be corrected. The layers
	// below pkg/kubevirt do not know the Secret that contains it.
	Kubeconfig bool
	// Cause is the error that the message describes. Its own text is not shown; it may be nil.
	Cause error
}

// Errorf returns an error of a kind. The format may wrap causes with %w.
func Errorf(kind error, format string, args ...any) *Error {
	described := fmt.Errorf(format, args...)

	return &Error{Kind: kind, Message: described.Error(), Cause: described}
}

// Error returns the whole text: the reason, or the kind if there is none, the message and the
// remedy.
func (e *Error) Error() string {
	lead := e.Reason
	if lead == "" && e.Kind != nil {
		lead = e.Kind.Error()
	}

	return lead + ": " + e.Details()
}

// Details returns the message and the remedy.
func (e *Error) Details() string {
	if e.Remedy == "" {
		return e.Message
	}

	return e.Message + "; " + e.Remedy
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Cause}, func(err error) bool { return err == nil })
}

// AsError returns an error as a value; nil stays nil. An error that is not an Error keeps its text
// as the message. Its kind is the sentinel that it wraps, or nil if it wraps none.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}

	if own, ok := err.(*Error); ok { //nolint:errorlint // The text of a wrapping error would be lost.
		return own
	}

	found := &Error{Message: err.Error(), Cause: err}

	var inner *Error
	if errors.As(err, &inner) {
		found.Kind = inner.Kind
		found.Reason = inner.Reason
		found.Kubeconfig = inner.Kubeconfig

		return found
	}

	for _, kind := range kinds {
		if errors.Is(err, kind) {
			found.Kind = kind

			return found
		}
	}

	return found
}

// WithRemedy returns an error with the remedy in place of its own; nil stays nil.
func WithRemedy(err error, remedy string) error {
	if err == nil {
		return nil
	}

	remedied := *AsError(err)
	remedied.Remedy = remedy

	return &remedied
}

// During returns an error whose message begins with the operation that failed; nil stays nil.
func During(operation string, err error) error {
	if err == nil {
		return nil
	}

	failed := *AsError(err)
	failed.Message = operation + ": " + failed.Message

	return &failed
}
