// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// reader reads each response before it passes it on, so that a program never receives a part of one that
// exceeds a bound; the events of a watch are passed on as they come, each of them bounded.
type reader struct {
	requests, watches chan struct{}
	// lists is held by the only list of several pages that is in memory at a time.
	lists chan struct{}
}

// errNoTarget is the error of a request that did not pass Proxy.ServeHTTP.
var errNoTarget = errors.New("the request has no target")

// RoundTrip implements http.RoundTripper.
func (p *reader) RoundTrip(r *http.Request) (*http.Response, error) {
	to, ok := r.Context().Value(targetKey{}).(*connection.Target)
	if !ok {
		return nil, errNoTarget
	}

	if r.URL.Query().Has("watch") {
		return p.watch(to, r)
	}

	done, err := enter(r.Context(), p.requests)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(r.Context(), transport.RequestTimeout) //nolint:gosec // leave calls cancel.
	ctx, slot := transport.WithReadSlot(ctx)

	leave := func() {
		cancel()
		done()
		afterDecoding(slot.Cost(), slot.Release)
	}

	response, err := p.read(to, r.WithContext(ctx), slot)
	if err != nil {
		leave()

		return nil, err
	}

	response.Body = &onClose{ReadCloser: response.Body, do: leave}

	return response, nil
}

// watch passes the events on as they come.
func (p *reader) watch(to *connection.Target, r *http.Request) (*http.Response, error) {
	done, err := enter(r.Context(), p.watches)
	if err != nil {
		return nil, err
	}

	response, err := to.Transport.RoundTrip(r)
	if err != nil {
		done()

		return nil, err
	}

	response.Body = &onClose{ReadCloser: response.Body, do: done}

	return response, nil
}

// read sends a request, and reads its response. A program that lists objects without a limit, as both do,
// would receive as many as the server sends: the proxy reads them page by page.
func (p *reader) read(to *connection.Target, r *http.Request, slot *transport.ReadSlot) (*http.Response, error) {
	if query := r.URL.Query(); r.Method == http.MethodGet && !query.Has("limit") && !query.Has("continue") {
		return p.list(to, r, slot)
	}

	response, body, err := whole(to, r)
	if err != nil {
		return nil, err
	}

	return with(response, bytes.NewReader(body)), nil
}

// whole sends a request, and reads its response.
func whole(to *connection.Target, r *http.Request) (*http.Response, []byte, error) {
	response, err := to.Transport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}

	body, err := io.ReadAll(response.Body)

	return response, body, errors.Join(err, response.Body.Close())
}

const (
	// decoded is the memory, as transport estimates it, that a program decodes per second. It decodes
	// several times as much unless it lacks CPU.
	decoded = 256 << 20
	// small is the estimate for a response that is not counted.
	small = 1 << 20
)

// afterDecoding calls a function when the program is likely to have decoded a response. Until then, no
// other large response is read: with a response in each of its workers, the program would take many times
// the memory of one.
func afterDecoding(cost int64, do func()) {
	if cost < small {
		do()

		return
	}

	time.AfterFunc(time.Duration(cost)*time.Second/decoded, do)
}

// enter waits for a place, and returns a function that leaves it.
func enter(ctx context.Context, places chan struct{}) (leave func(), _ error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait until other requests have ended: %w", ctx.Err())
	}
}

// onClose calls a function when a body is closed.
type onClose struct {
	io.ReadCloser

	do func()
}

// Close implements io.Closer.
func (c *onClose) Close() error {
	err := c.ReadCloser.Close()

	if c.do != nil {
		c.do()
		c.do = nil
	}

	return err
}
