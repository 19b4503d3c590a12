package providerapi

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errSilent is why a watch ends that does not begin.
var errSilent = errors.New("the watch did not begin in time")

// timer bounds how long a request lasts: requestTimeout if its caller sets no deadline, or what a watch may take.
type timer struct {
	cancel context.CancelCauseFunc
	// beginning runs until the answer begins; nil if that is not bounded.
	beginning *time.Timer
	lasting   *time.Timer
}

// timed returns the context for a request, and its timer.
func timed(ctx context.Context, watch bool) (context.Context, *timer) {
	_, bounded := ctx.Deadline()
	ctx, cancel := context.WithCancelCause(ctx)
	t := &timer{cancel: cancel}

	switch {
	case watch:
		t.beginning = time.AfterFunc(watchBegins, func() { cancel(errSilent) })
		t.lasting = time.AfterFunc(watchLasts, func() { cancel(context.DeadlineExceeded) })
	case !bounded:
		t.lasting = time.AfterFunc(requestTimeout, func() { cancel(context.DeadlineExceeded) })
	}

	return ctx, t
}

// begun takes note that the answer begins.
func (t *timer) begun() {
	if t.beginning != nil {
		t.beginning.Stop()
	}
}

// end releases what the request holds.
func (t *timer) end() {
	t.begun()

	if t.lasting != nil {
		t.lasting.Stop()
	}

	t.cancel(nil)
}

// explain says that a request took too long, if that is why it failed: not its caller has cancelled it.
func (t *timer) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) || errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the answer took too long: %w", context.DeadlineExceeded)
	}

	return err
}
