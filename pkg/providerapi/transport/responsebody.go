package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// responseBody is the body of a response. Reading fails when a bound is exceeded.
type responseBody struct {
	io.ReadCloser

	scanner scanner
	// slot is set if the response is a page of a list, which may be large.
	slot *ReadSlot
	// ctx is the request's context; it ends a read that waits.
	ctx   context.Context //nolint:containedctx // The methods of io.Reader take no context.
	timer *timer
	// slow cancels the request if the response holds the slot for too long.
	slow *time.Timer
}

// bodyOf returns the body of a response that is JSON.
func bodyOf(ctx context.Context, resp *http.Response, watch bool, slot *ReadSlot, timer *timer) *responseBody {
	b := &responseBody{ReadCloser: resp.Body, scanner: scanner{most: MaxKept, excess: errMemory, events: watch}, ctx: ctx, timer: timer}

	switch {
	case watch:
		b.ReadCloser = newPaced(ctx, resp.Body)
	case slot != nil:
		b.slot, b.scanner.most, b.scanner.excess = slot, maxPage, ErrPage
	}

	return b
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)

	if excess := b.scanner.scan(p[:n]); excess != nil {
		return 0, excess
	}

	if b.slot != nil && b.scanner.cost > smallPage {
		if err := b.acquire(); err != nil {
			return 0, err
		}
	}

	if err != nil {
		err = b.timer.explain(b.ctx, err)
	}

	return n, err
}

// acquire waits for the slot, and then limits the time for the rest of the response.
func (b *responseBody) acquire() error {
	if err := b.slot.acquire(b.ctx); err != nil {
		return err
	}

	if b.slow == nil {
		b.slow = time.AfterFunc(largeReadTimeout, func() { b.timer.cancel(context.DeadlineExceeded) })
	}

	return nil
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	defer b.timer.end()

	if b.slow != nil {
		b.slow.Stop()
	}

	if b.slot != nil {
		b.slot.cost.Add(b.scanner.cost)
		b.scanner.cost = 0 // It may be closed again.
	}

	return b.ReadCloser.Close()
}

// paced is the body of a watch, which bounds its average rate. Clients begin a new watch as soon as one
// ends, also if the server ends each after one event.
type paced struct {
	io.ReadCloser

	ctx   context.Context //nolint:containedctx // see responseBody
	began time.Time
	bytes int64
}

func newPaced(ctx context.Context, body io.ReadCloser) *paced {
	return &paced{ReadCloser: body, ctx: ctx, began: time.Now()}
}

// Read implements io.Reader. The end of a watch is read at least a second after its beginning, and another
// second later for each MiB of events.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if p.bytes += int64(n); p.bytes > maxWatch && err == nil {
		err = fmt.Errorf("the watch has more than %d MiB: %w", maxWatch>>20, io.EOF)
	}

	if err == nil {
		return n, nil
	}

	end := time.NewTimer(time.Until(p.began.Add(minWatchDuration + time.Duration(p.bytes)*time.Second/watchRate)))
	defer end.Stop()

	select {
	case <-end.C:
	case <-p.ctx.Done():
	}

	return n, err
}
