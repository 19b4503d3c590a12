// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"io"
	"time"
)

const reportEvery = 10 * time.Second

// Report writes a line about a long operation at once, and again every ten seconds until stop is called. Lines draws it in
// place if it begins with "step ", "build " or "start ", and its first comma is followed by what changes.
func Report(out io.Writer, line func(elapsed time.Duration) string) (stop func()) {
	begun := time.Now()
	done := make(chan struct{})
	ended := make(chan struct{})
	write := func(elapsed time.Duration) { _, _ = io.WriteString(out, line(elapsed)+"\n") } // as Screen: a lost reader is no failure
	write(0)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				write(time.Since(begun))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
