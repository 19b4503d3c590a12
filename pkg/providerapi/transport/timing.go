// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errWatchTimeout is the cancellation cause of a watch that does not begin in time.
var errWatchTimeout = errors.New("the watch did not begin in time")

// timer bounds the duration of a request: RequestTimeout if its caller sets no deadline, or
// watchBeginTimeout and maxWatchDuration for a watch.
type timer struct {
	cancel context.CancelCauseFunc
	// beginning fires if the response does not begin in time; nil if that is not bounded.
	beginning *time.Timer
	lasting   *time.Timer
}

// timed returns the context and the timer of a request.
func timed(ctx context.Context, watch bool) (context.Context, *timer) {
	_, bounded := ctx.Deadline()
	ctx, cancel := context.WithCancelCause(ctx)
	t := &timer{cancel: cancel}

	switch {
	case watch:
		t.beginning = time.AfterFunc(watchBeginTimeout, func() { cancel(errWatchTimeout) })
		t.lasting = time.AfterFunc(maxWatchDuration, func() { cancel(context.DeadlineExceeded) })
	case !bounded:
		t.lasting = time.AfterFunc(RequestTimeout, func() { cancel(context.DeadlineExceeded) })
	}

	return ctx, t
}

// begun records that the response has begun.
func (t *timer) begun() {
	if t.beginning != nil {
		t.beginning.Stop()
	}
}

// end stops the timer and releases the request's context.
func (t *timer) end() {
	t.begun()

	if t.lasting != nil {
		t.lasting.Stop()
	}

	t.cancel(nil)
}

// explain replaces err with a timeout error if the request took too long. Cancellation by the
// caller is not a timeout.
func (t *timer) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errWatchTimeout) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the response took too long: %w", context.DeadlineExceeded)
	}

	return err
}
