// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// relay forwards TCP connections to a server as if it were far away. All bytes arrive half a round trip later, at
// whatever rate they are sent, and a new connection carries its first bytes only after a round trip: that of the TCP
// handshake, which the loopback interface completes at once.
type relay struct {
	address string
	// roundTrip is the time that a packet takes to the server and back. It applies to open connections, too.
	roundTrip atomic.Int64
}

// newRelay starts a relay to a server. It closes all its connections when the test ends.
func newRelay(t *testing.T, server string) *relay {
	t.Helper()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	r := &relay{address: listener.Addr().String()}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context())) // Processes are stopped after the test's context.

	var accepting, forwarding sync.WaitGroup

	accepting.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // The test has ended.
			}

			forwarding.Go(func() { r.forward(ctx, client, server) })
		}
	})

	t.Cleanup(func() {
		end()
		require.NoError(t, listener.Close())
		accepting.Wait()
		forwarding.Wait()
	})

	return r
}

// forward connects a client to the server until both have ended the connection, or ctx ends.
func (r *relay) forward(ctx context.Context, client net.Conn, server string) {
	established := time.Now().Add(time.Duration(r.roundTrip.Load()))

	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		reset(client)

		return
	}

	done := make(chan struct{})

	var directions sync.WaitGroup

	directions.Go(func() { r.send(client, to, established) })
	directions.Go(func() { r.send(to, client, established) })

	go func() {
		defer close(done)

		directions.Wait()
	}()

	select {
	case <-done:
	case <-ctx.Done():
	}

	_ = client.Close() // Both ends may be closed already.
	_ = to.Close()

	<-done
}

// chunk are bytes on their way, or the error that ends them.
type chunk struct {
	data []byte
	due  time.Time
	err  error
}

// send forwards the bytes of one direction. Neither side waits for the other: as many chunks can be on their way as a
// second of any test sends.
func (r *relay) send(from, to net.Conn, established time.Time) {
	const window = 4096

	chunks := make(chan chunk, window)

	go func() {
		defer close(chunks)

		buffer := make([]byte, 32<<10)

		for {
			n, err := from.Read(buffer)
			sent := time.Now()

			if sent.Before(established) {
				sent = established
			}

			chunks <- chunk{data: bytes.Clone(buffer[:n]), due: sent.Add(time.Duration(r.roundTrip.Load()) / 2), err: err}

			if err != nil {
				return
			}
		}
	}()

	for c := range chunks {
		<-time.NewTimer(time.Until(c.due)).C

		if !arrive(c, to) {
			reset(from)
		}
	}
}

// arrive passes on a chunk. It returns false if the receiver is gone.
func arrive(c chunk, to net.Conn) bool {
	if _, err := to.Write(c.data); err != nil {
		return false
	}

	switch end, ok := to.(*net.TCPConn); {
	case c.err == nil:
	case errors.Is(c.err, io.EOF) && ok:
		return end.CloseWrite() == nil
	default:
		reset(to)
	}

	return true
}

// reset ends a connection so that the other side sees an error.
func reset(c net.Conn) {
	if end, ok := c.(*net.TCPConn); ok {
		_ = end.SetLinger(0) // It may be closed already.
	}

	_ = c.Close()
}
