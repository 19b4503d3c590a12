// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// limiter caps concurrent use of a resource, in total and per client, so that one client cannot
// starve the others.
type limiter struct {
	size, share int64
	total       *semaphore.Weighted

	mu sync.Mutex
	// clients holds the clients that use the resource or wait for it, by name.
	clients map[string]*clientShare
}

// clientShare is the share of one client.
type clientShare struct {
	*semaphore.Weighted

	// calls is the number of calls that use the share or wait for it.
	calls int
}

func newLimiter(size, share int64) *limiter {
	return &limiter{size: size, share: share, total: semaphore.NewWeighted(size), clients: map[string]*clientShare{}}
}

// acquire waits until a call may use n units of the resource, and returns a function that releases
// them. A call waits for its client's share first, so that no client occupies the queue for the
// total.
func (l *limiter) acquire(ctx context.Context, n int64) (release func(), err error) {
	client := clientOf(ctx)
	share := l.enter(client)

	if err := share.Acquire(ctx, n); err != nil {
		l.leave(client)

		return nil, err
	}

	if err := l.total.Acquire(ctx, n); err != nil {
		share.Release(n)
		l.leave(client)

		return nil, err
	}

	return func() {
		l.total.Release(n)
		share.Release(n)
		l.leave(client)
	}, nil
}

// enter returns a client's share, which exists until the client's last call has ended.
func (l *limiter) enter(client string) *clientShare {
	l.mu.Lock()
	defer l.mu.Unlock()

	share := l.clients[client]
	if share == nil {
		size := l.share
		if client == "" { // Clients of a socket run as its owner and may use the whole resource.
			size = l.size
		}

		share = &clientShare{Weighted: semaphore.NewWeighted(size)}
		l.clients[client] = share
	}

	share.calls++

	return share
}

func (l *limiter) leave(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	share := l.clients[client]
	if share.calls--; share.calls == 0 {
		delete(l.clients, client)
	}
}

// clientOf returns the first name in the client's certificate; empty without a certificate.
func clientOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}

	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return ""
	}

	return namesIn(info.State.PeerCertificates[0])[0] // Clients without a name are rejected.
}
