// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package libnbd takes the place of libnbd's binding, which the Go module proxy does not serve, for virt-launcher.
//
// virt-launcher calls it only for backups that are pulled from it, which the lab does not make: Create always fails. The names
// and signatures are those of the binding.
package libnbd

import "errors"

// Names and flags of the binding.
const (
	CONTEXT_BASE_ALLOCATION          = "base:allocation"
	CONTEXT_QEMU_DIRTY_BITMAP        = "qemu:dirty-bitmap:"
	STATE_HOLE                uint32 = 1
	STATE_ZERO                uint32 = 2
	STATE_DIRTY               uint32 = 1
)

var errNone = errors.New("this virt-launcher serves no backups: it was built without libnbd")

// LibnbdExtent is a range of a disk.
type LibnbdExtent struct {
	Length uint64
	Flags  uint64
}

// ExtentCallback receives the extents of a disk.
type ExtentCallback func(metacontext string, offset uint64, entries []LibnbdExtent, nbdErr *int) int

// BlockStatus64Optargs are the options of BlockStatus64.
type BlockStatus64Optargs struct{}

// PreadOptargs are the options of Pread.
type PreadOptargs struct{}

// Libnbd is a connection, of which there is none.
type Libnbd struct{}

// Create always fails.
func Create() (*Libnbd, error) { return nil, errNone }

// Close does nothing.
func (*Libnbd) Close() error { return nil }

// AddMetaContext always fails.
func (*Libnbd) AddMetaContext(string) error { return errNone }

// CanMetaContext always fails.
func (*Libnbd) CanMetaContext(string) (bool, error) { return false, errNone }

// GetSize always fails.
func (*Libnbd) GetSize() (uint64, error) { return 0, errNone }

// ConnectUri always fails.
func (*Libnbd) ConnectUri(string) error { return errNone }

// SetExportName always fails.
func (*Libnbd) SetExportName(string) error { return errNone }

// ConnectUnix always fails.
func (*Libnbd) ConnectUnix(string) error { return errNone }

// Pread always fails.
func (*Libnbd) Pread([]byte, uint64, *PreadOptargs) error { return errNone }

// BlockStatus64 always fails.
func (*Libnbd) BlockStatus64(uint64, uint64, ExtentCallback, *BlockStatus64Optargs) error {
	return errNone
}
