// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// responseBody is the body of a response, or of a watch. It is read, and its memory estimated, before the
// first byte of it or of an event is returned.
type responseBody struct {
	io.ReadCloser

	// most bounds the memory, and excess is the error of a response that exceeds it.
	most   int64
	excess error
	// plain is set if the response is text, which is not decoded.
	plain bool
	// slot is set if the response is a page of a list, which may be large.
	slot *ReadSlot
	// ctx is the request's context; it ends a read that waits.
	ctx   context.Context //nolint:containedctx // The methods of io.Reader take no context.
	timer *timer
	// slow cancels the request if the response holds the slot for too long.
	slow *time.Timer

	// events decodes the events of a watch, each of which may have as many bytes as left.
	events *json.Decoder
	left   *io.LimitedReader
	// text has the unread part of the response or of the event.
	text *bytes.Reader
}

// bodyOf returns the body of a response.
func bodyOf(ctx context.Context, resp *http.Response, watch bool, slot *ReadSlot, timer *timer) *responseBody {
	b := &responseBody{ReadCloser: resp.Body, most: maxKept, excess: errMemory, ctx: ctx, timer: timer}

	switch {
	case watch:
		b.left = &io.LimitedReader{R: newPaced(ctx, resp.Body)}
		b.events = json.NewDecoder(b.left)
		b.text = bytes.NewReader(nil)
	case slot != nil:
		b.slot = slot
		b.most = maxPage
		b.excess = ErrPage
	}

	return b
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.text == nil || b.events != nil && b.text.Len() == 0 {
		text, err := b.next()
		if err != nil {
			return 0, b.timer.explain(b.ctx, err)
		}

		b.text = bytes.NewReader(text)
	}

	n, err := b.text.Read(p)
	if b.text.Len() == 0 {
		b.text.Reset(nil) // A watch may wait long for its next event.
	}

	return n, err
}

// next reads the response, or the next event of a watch, unless it takes too much memory.
func (b *responseBody) next() ([]byte, error) {
	if b.plain {
		return io.ReadAll(io.LimitReader(b.ReadCloser, MaxText))
	}

	read := b.whole
	if b.events != nil {
		read = b.event
	}

	text, err := read()
	if err != nil {
		return nil, err
	}

	cost, err := estimate(text)

	switch {
	case err != nil:
		return nil, err
	case cost > b.most:
		return nil, b.excess
	case b.slot == nil:
		return text, nil
	}

	b.slot.cost += cost

	return text, b.admit(cost)
}

// whole reads a response.
func (b *responseBody) whole() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(b.ReadCloser, smallPage/costOfByte))
	if err != nil || len(text) < smallPage/costOfByte {
		return text, err
	}

	if err := b.admit(smallPage + 1); err != nil {
		return nil, err
	}

	rest, err := io.ReadAll(io.LimitReader(b.ReadCloser, b.most/costOfByte))

	return append(text, rest...), err
}

// event reads an event.
func (b *responseBody) event() ([]byte, error) {
	var event json.RawMessage

	b.left.N = maxKept / costOfByte

	err := b.events.Decode(&event)
	if err != nil && b.left.N == 0 {
		err = errMemory
	}

	return event, err
}

// admit waits for the slot if a page is large, and then limits the time for the rest of the response.
func (b *responseBody) admit(cost int64) error {
	if b.slot == nil || cost <= smallPage {
		return nil
	}

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
