// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Distance is what lies between a client and a cluster.
type Distance struct {
	// RoundTrip is the time that a packet takes to the cluster and back.
	RoundTrip time.Duration
	// OneLostIn is the number of requests of which one, on average, loses its connection; zero if none does.
	OneLostIn int
}

// ProxyDistant is ProxyProvider with a line whose length is set by Move, at first zero. As API servers do, it offers
// HTTP/2, whose requests share a connection.
func (s *Shoot) ProxyDistant(t *testing.T) *Line {
	t.Helper()

	l, server := newDistantLine(t, lab.Provider.Config())
	s.ProviderKubeconfig = RedirectKubeconfig(t, s.ProviderKubeconfig, server)

	return l
}

func newDistantLine(t *testing.T, to *rest.Config) (*Line, *httptest.Server) {
	t.Helper()

	l := &Line{losses: losses{chance: rand.New(rand.NewPCG(seed, seed))}}
	server := httptest.NewUnstartedServer(l.handler(t, to))
	server.EnableHTTP2 = true
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	l.relay = newRelay(t, server.Listener.Addr().String())
	server.URL = "https://" + l.relay.address

	return l, server
}

// Move sets the distance of a distant line, also for open connections.
func (l *Line) Move(d Distance) {
	l.relay.roundTrip.Store(int64(d.RoundTrip))

	l.losses.mu.Lock()
	defer l.losses.mu.Unlock()

	l.losses.oneIn = d.OneLostIn
}

// Lost returns the number of requests that have lost their connection.
func (l *Line) Lost() int {
	l.losses.mu.Lock()
	defer l.losses.mu.Unlock()

	return l.losses.lost
}

// losses choose the requests that lose their connection: those with the same numbers on each line.
type losses struct {
	mu     sync.Mutex
	chance *rand.Rand
	oneIn  int
	lost   int
}

// seed determines the lost requests.
const seed = 2026

// fate is what happens to a request.
type fate int

const (
	arrives fate = iota
	// requestLost means that the cluster never gets the request, and responseLost that it carries it out.
	requestLost
	responseLost
)

func (l *losses) next() fate {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.oneIn == 0 || l.chance.IntN(l.oneIn) > 0 {
		return arrives
	}

	l.lost++

	return requestLost + fate(l.chance.IntN(2))
}

// apply returns a request, marked if its response is to be lost, or resets its connection.
func (l *losses) apply(r *http.Request) *http.Request {
	switch l.next() {
	case requestLost:
		resetConnectionOf(r)
		panic(http.ErrAbortHandler)
	case responseLost:
		return r.WithContext(context.WithValue(r.Context(), lostKey{}, true))
	case arrives:
	}

	return r
}

// loseResponse resets the connection of a marked request, which the cluster has carried out. With HTTP/2, all requests on
// that connection are lost.
func loseResponse(resp *http.Response) error {
	if resp.Request.Context().Value(lostKey{}) == nil {
		return nil
	}

	resetConnectionOf(resp.Request)

	return errors.New("the connection was reset")
}

// connectionKey is the context key of a request's connection, and lostKey that of a request whose response is to be lost.
type (
	connectionKey struct{}
	lostKey       struct{}
)

func resetConnectionOf(r *http.Request) {
	if c, ok := r.Context().Value(connectionKey{}).(*tls.Conn); ok {
		reset(c.NetConn())
	}
}
