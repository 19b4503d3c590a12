// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"
)

const (
	// maxReads is the number of requests that are read at a time. The size of a request is known
	// only after it has been read.
	maxReads = 16
	// maxInFlight bounds the total size of requests that have been read and have no response yet, in
	// bytes. An ordinary request takes 30 KiB.
	maxInFlight = 32 << 20
	// clientFraction divides both bounds to get the share of one client.
	clientFraction = 4
	// readTimeout bounds the time for reading one request.
	readTimeout = 30 * time.Second
	// window is the number of bytes that gRPC accepts of a request, and of all requests of a
	// connection, before the request is read. Without it, gRPC lets a fast client send megabytes.
	window = 64 << 10
)

// inFlightLimiter bounds the memory of requests that are read or wait for the concurrency limiter.
// gRPC reads a request before it calls an interceptor; it calls only a stats.Handler before that.
type inFlightLimiter struct {
	reads, bytes *limiter
}

func newInFlightLimiter() *inFlightLimiter {
	return &inFlightLimiter{
		reads: newLimiter(maxReads, maxReads/clientFraction),
		bytes: newLimiter(maxInFlight, maxInFlight/clientFraction),
	}
}

// inFlightRequest is a request that is read, or has no response yet.
type inFlightRequest struct {
	cancel context.CancelFunc
	// timeout cancels the call if the request is not read in time; nil until reading begins.
	timeout *time.Timer
	// doneReading lets the next request be read.
	doneReading func()
	// releases return everything that the request uses to the limiters.
	releases []func()
}

// inFlightKey is the context key of an inFlightRequest.
type inFlightKey struct{}

// tap makes a call cancellable by the read timeout. gRPC calls it before it reads the request.
func (*inFlightLimiter) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)

	return context.WithValue(ctx, inFlightKey{}, &inFlightRequest{cancel: cancel}), nil
}

// TagRPC implements stats.Handler.
func (*inFlightLimiter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (*inFlightLimiter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// HandleConn implements stats.Handler.
func (*inFlightLimiter) HandleConn(context.Context, stats.ConnStats) {}

// HandleRPC implements stats.Handler. gRPC calls it in the goroutine of the call, so it may block.
func (l *inFlightLimiter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	request, ok := ctx.Value(inFlightKey{}).(*inFlightRequest)
	if !ok {
		return
	}

	switch event := event.(type) {
	case *stats.Begin:
		l.beginReading(ctx, request)
	case *stats.InPayload:
		l.endReading(ctx, request, int64(event.Length))
	case *stats.End:
		request.end()
	}
}

// beginReading waits until the request may be read. If the call ends before that, gRPC cannot read
// the request.
func (l *inFlightLimiter) beginReading(ctx context.Context, r *inFlightRequest) {
	release, err := l.reads.acquire(ctx, 1)
	if err != nil {
		return
	}

	r.timeout = time.AfterFunc(readTimeout, r.cancel)
	r.doneReading = sync.OnceFunc(func() {
		r.timeout.Stop()
		release()
	})
	r.releases = append(r.releases, r.doneReading)
}

// endReading waits until there is memory for a request that has been read, and lets the next one be
// read. A stream may carry several requests, all of which count.
func (l *inFlightLimiter) endReading(ctx context.Context, r *inFlightRequest, size int64) {
	if r.timeout == nil {
		return
	}

	r.timeout.Stop()

	if release, err := l.bytes.acquire(ctx, size); err == nil { // Otherwise the call has ended.
		r.releases = append(r.releases, release)
	}

	r.doneReading()
}

func (r *inFlightRequest) end() {
	for _, release := range r.releases {
		release()
	}

	r.cancel()
}
