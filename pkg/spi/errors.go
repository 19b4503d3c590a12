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
	// ErrUnavailable means that the provider cluster did not answer properly for longer than a blip.
	ErrUnavailable = errors.New("provider cluster unavailable")
	// ErrTimeout means that an operation goes on, but has not ended in its time.
	ErrTimeout = errors.New("timed out")
)
