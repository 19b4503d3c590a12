// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

// Progress is a step of a machine that is reported to its observers. A problem of
// a machine is an error instead.
type Progress struct {
	// Reason is a stable token, suitable for matching.
	Reason string
	// Message describes the step in a sentence.
	Message string
}

// Report receives the progress of a machine. It may receive the same step more than
// once. The nil Report ignores it.
type Report func(Progress)

// Send reports a step.
func (r Report) Send(p Progress) {
	if r != nil {
		r(p)
	}
}
