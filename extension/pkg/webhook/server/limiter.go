// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http" //nolint:depguard // of the requests to the webhook server; the package does not call a provider cluster
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBody is the size of the largest request. It contains the object before and after a change, and
	// etcd stores objects of at most 1.5 MiB.
	maxBody = 4 << 20
	// minWeight is the least weight of a request, for what it takes besides its body.
	minWeight = 32 << 10
	// total is the size of all requests that are served at a time. A request takes several times the
	// size of its body, for the decoded objects and the response.
	total = 32 << 20
	// share is the part of the total that requests from one address take.
	share = 8 << 20
	// queue is the size of all requests from one address that are served or wait. HTTP/2 stores a part of
	// the body of a request that waits.
	queue = 32 << 20
	// patience is the time for which a request waits. An API server waits five seconds for the webhook of
	// the shoots, and ten for the others.
	patience = 4 * time.Second
	// readTimeout ends the requests of callers that do not send their body.
	readTimeout = 10 * time.Second
)

// errTooMany is the error of a request beyond the queue.
var errTooMany = errors.New("too many requests from this address")

// limiter bounds the size of the requests that are served at a time.
type limiter struct {
	share int64
	total *semaphore.Weighted

	mu sync.Mutex
	// senders are the addresses whose requests are served or wait.
	senders map[netip.Addr]*sender
}

// sender is the share of one address.
type sender struct {
	*semaphore.Weighted

	// queued is the size of the requests.
	queued int64
}

func newLimiter(total, share int64) *limiter {
	return &limiter{share: share, total: semaphore.NewWeighted(total), senders: map[netip.Addr]*sender{}}
}

// limited returns a handler within the limits. It responds to other requests with an error of HTTP, not
// with a denial: the failure policy of a webhook applies to the former only.
func (l *limiter) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		weight, status := weightOf(r)
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)

			return
		}

		release, err := l.acquire(r, weight)
		if err != nil {
			http.Error(w, err.Error(), http.StatusTooManyRequests)

			return
		}
		defer release()

		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			http.Error(w, "set deadline", http.StatusInternalServerError)

			return
		}

		next.ServeHTTP(w, r)
	})
}

// weightOf returns the weight of a request, or the status of the response that refuses it. net/http does
// not read more than the stated length.
func weightOf(r *http.Request) (int64, int) {
	switch {
	case r.ContentLength < 0:
		return 0, http.StatusLengthRequired
	case r.ContentLength > maxBody:
		return 0, http.StatusRequestEntityTooLarge
	default:
		return max(r.ContentLength, minWeight), http.StatusOK
	}
}

// acquire waits until a request may be served, and returns a function that ends it. A request waits for
// its sender's share first, so that no sender occupies the queue for the total.
func (l *limiter) acquire(r *http.Request, weight int64) (release func(), err error) {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return nil, fmt.Errorf("parse the address of the sender: %w", err)
	}

	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()

	from := address.Addr().Unmap()

	part := l.enter(from, weight)
	if part == nil {
		return nil, errTooMany
	}

	if err := part.Acquire(ctx, weight); err != nil {
		l.leave(from, weight)

		return nil, fmt.Errorf("wait for other requests from this address: %w", err)
	}

	if err := l.total.Acquire(ctx, weight); err != nil {
		part.Release(weight)
		l.leave(from, weight)

		return nil, fmt.Errorf("wait for other requests: %w", err)
	}

	return func() {
		l.total.Release(weight)
		part.Release(weight)
		l.leave(from, weight)
	}, nil
}

// enter returns the share of an address, which exists until its last request has left; nil if the
// address has too many.
func (l *limiter) enter(from netip.Addr, weight int64) *sender {
	l.mu.Lock()
	defer l.mu.Unlock()

	s := l.senders[from]
	if s == nil {
		s = &sender{Weighted: semaphore.NewWeighted(l.share)}
		l.senders[from] = s
	}

	if s.queued+weight > queue { // Not for a new sender, whose only request is smaller.
		return nil
	}

	s.queued += weight

	return s
}

func (l *limiter) leave(from netip.Addr, weight int64) {
	l.mu.Lock()
	defer l.mu.Unlock()

	s := l.senders[from]

	s.queued -= weight
	if s.queued == 0 {
		delete(l.senders, from)
	}
}
