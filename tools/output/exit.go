// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package output

import "errors"

// The exit codes besides 0.
const (
	// ExitInvalid means that the command line is valid, but its input is not, or that a cause was found.
	ExitInvalid = 1
	// ExitUsage means that the command line is invalid, or that an input cannot be read.
	ExitUsage = 2

	// ExitCodes is a part of the help of each command that reads manifests.
	ExitCodes = `
Exit codes:
  0  no errors; there may be warnings
  1  the manifests have errors
  2  the command line is invalid, or a file cannot be read
`
)

// An InvalidError means that the command line is valid, but its input is not.
type InvalidError string

// Error returns the text.
func (e InvalidError) Error() string { return string(e) }

// ExitCode distinguishes invalid input from an invalid command line for scripts.
func ExitCode(err error) int {
	var invalid InvalidError

	switch {
	case err == nil:
		return 0
	case errors.As(err, &invalid):
		return ExitInvalid
	default:
		return ExitUsage
	}
}
