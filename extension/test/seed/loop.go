// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"time"
)

const (
	// backOff is the time after which a pod that had an error is tried again.
	backOff = 5 * time.Second
	// stopTimeout is the time in which a process ends before it is killed.
	stopTimeout = 30 * time.Second
)

// Repeat calls act until ctx ends, with a pause between two calls, and another one after an error. It reports an error
// once, until there is another one or none.
func Repeat(ctx context.Context, every, afterError time.Duration, report func(error), act func(context.Context) error) {
	for last := ""; ; {
		pause := every

		switch err := act(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			last = ""
		default:
			pause = afterError

			if err.Error() != last {
				last = err.Error()
				report(err)
			}
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// play repeats the work of a shoot's pod until ctx ends, and then returns its first error, unless ReportErrors is
// set: that of a process, or another one that does not pass with the next call. Under load, single requests fail.
func (s *Seed) play(ctx context.Context, every time.Duration, operation string, act func(context.Context) error) (failed error) {
	var last error // of the previous call

	Repeat(ctx, every, backOff, func(err error) { s.report("cannot %s, trying again: %v", operation, err) }, func(ctx context.Context) error {
		err := act(ctx)
		if err != nil && ctx.Err() == nil && !s.reportsOnly && failed == nil && (last != nil || errors.Is(err, errCrashed)) {
			failed = wrap(err, operation)
		}

		last = err

		return err
	})

	return failed
}

// stopping returns a context in which a process is stopped, although ctx may have ended.
func stopping(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
}
