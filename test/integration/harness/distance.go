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
	"slices"
	"sync"
	"sync/atomic"
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
		return context.WithValue(ctx, connectionKey{}, &connection{Conn: c})
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

// Lost returns when requests have lost their connection. With HTTP/2, all requests on a connection lose it.
func (l *Line) Lost() []time.Time {
	l.losses.mu.Lock()
	defer l.losses.mu.Unlock()

	return slices.Clone(l.losses.lost)
}

// losses choose the requests that lose their connection: those with the same numbers on each line.
type losses struct {
	mu     sync.Mutex
	chance *rand.Rand
	oneIn  int
	lost   []time.Time
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

	l.lost = append(l.lost, time.Now())

	return requestLost + fate(l.chance.IntN(2))
}

// noteAnother notes that a request has lost its connection with another one.
func (l *losses) noteAnother() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.lost = append(l.lost, time.Now())
}

// serve forwards a request, unless it is to be lost.
func (l *losses) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	switch l.next() {
	case requestLost:
		resetConnectionOf(r)
		panic(http.ErrAbortHandler)
	case responseLost:
		r = r.WithContext(context.WithValue(r.Context(), lostKey{}, true))
	case arrives:
		defer func() {
			if c := connectionOf(r); c != nil && c.lost.Load() {
				l.noteAnother()
			}
		}()
	}

	forward.ServeHTTP(w, r)
}

// loseResponse resets the connection of a marked request, which the cluster has carried out.
func loseResponse(resp *http.Response) error {
	if resp.Request.Context().Value(lostKey{}) == nil {
		return nil
	}

	resetConnectionOf(resp.Request)

	return errors.New("the connection was reset")
}

// connection is that of a client to a distant line.
type connection struct {
	net.Conn

	lost atomic.Bool
}

// connectionKey is the context key of a request's connection, and lostKey that of a request whose response is to be lost.
type (
	connectionKey struct{}
	lostKey       struct{}
)

// connectionOf returns the connection of a request, or nil if its line is not distant.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)

	return c
}

// resetConnectionOf ends the connection of a request to a distant line.
func resetConnectionOf(r *http.Request) {
	c := connectionOf(r)
	if c == nil {
		return
	}

	c.lost.Store(true)

	if encrypted, ok := c.Conn.(*tls.Conn); ok {
		reset(encrypted.NetConn())
	}
}
