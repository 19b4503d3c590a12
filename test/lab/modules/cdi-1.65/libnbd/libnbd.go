// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package libnbd takes the place of libnbd's binding, which needs a C library, for CDI's import package.
//
// CDI calls it only for imports from VMware, which the lab does not have: Create always fails. The names
// and signatures are those of the binding.
package libnbd

import "errors"

// Flags of the binding.
const (
	CMD_FLAG_REQ_ONE = 1 << 3
	STATE_HOLE       = 1
	STATE_ZERO       = 2
)

// LibnbdError is the binding's error.
type LibnbdError struct{ Errmsg string }

// Error implements error.
func (e *LibnbdError) Error() string { return e.Errmsg }

// PreadOptargs are the options of Pread.
type PreadOptargs struct{}

// BlockStatusOptargs are the options of BlockStatus.
type BlockStatusOptargs struct {
	Flags    uint32
	FlagsSet bool
}

// ExtentCallback receives the extents of a disk.
type ExtentCallback func(metacontext string, offset uint64, entries []uint32, err *int) int

// Libnbd is a connection, of which there is none.
type Libnbd struct{}

var errNone = errors.New("this importer cannot import from VMware: it was built without libnbd")

// Create always fails.
func Create() (*Libnbd, error) { return nil, errNone }

// AddMetaContext always fails.
func (*Libnbd) AddMetaContext(string) error { return errNone }

// ConnectUri always fails.
func (*Libnbd) ConnectUri(string) error { return errNone }

// GetSize always fails.
func (*Libnbd) GetSize() (uint64, error) { return 0, errNone }

// Pread always fails.
func (*Libnbd) Pread([]byte, uint64, *PreadOptargs) error { return errNone }

// BlockStatus always fails.
func (*Libnbd) BlockStatus(uint64, uint64, ExtentCallback, *BlockStatusOptargs) error { return errNone }

// Close does nothing.
func (*Libnbd) Close() *LibnbdError { return nil }
