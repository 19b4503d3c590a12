// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/stats"
)

// begin begins a call of a client. The returned channel is closed when its request may be read.
func begin(t *testing.T, l *inFlightLimiter, client string) (ctx context.Context, begun chan struct{}) {
	t.Helper()

	ctx, err := l.tap(as(t.Context(), client), nil)
	require.NoError(t, err)

	begun = make(chan struct{})

	go func() {
		l.HandleRPC(ctx, &stats.Begin{})
		close(begun)
	}()

	synctest.Wait()

	return ctx, begun
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestInFlightLimiter_Reads has a client begin more requests than may be read at a time.
func TestInFlightLimiter_Reads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newInFlightLimiter()

		var reading []context.Context

		for range maxReads / clientFraction {
			ctx, begun := begin(t, l, "greedy")
			require.True(t, isClosed(begun))

			reading = append(reading, ctx)
		}

		last, lastBegun := begin(t, l, "greedy")
		require.False(t, isClosed(lastBegun), "the client uses its share")

		other, begun := begin(t, l, "modest")
		require.True(t, isClosed(begun))

		time.Sleep(readTimeout) //nolint:forbidigo // The bubble's clock.
		synctest.Wait()
		require.ErrorIs(t, reading[0].Err(), context.Canceled, "a request that is sent too slowly is cancelled")

		for _, ctx := range append(reading, other) {
			l.HandleRPC(ctx, &stats.End{})
		}

		synctest.Wait()
		require.True(t, isClosed(lastBegun))
		l.HandleRPC(last, &stats.End{})
		require.Empty(t, l.reads.clients, "clients without calls are removed")
	})
}

// TestInFlightLimiter_BytesPerClient requires a client with many pending large requests not to block
// other clients.
func TestInFlightLimiter_BytesPerClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newInFlightLimiter()
		large := &stats.InPayload{Length: maxRequest}

		var waiting []context.Context

		for range maxInFlight / clientFraction / maxRequest {
			ctx, _ := begin(t, l, "greedy")
			l.HandleRPC(ctx, large)

			waiting = append(waiting, ctx)
		}

		ctx, _ := begin(t, l, "greedy")
		read := make(chan struct{})

		go func() {
			l.HandleRPC(ctx, large)
			close(read)
		}()

		synctest.Wait()
		require.False(t, isClosed(read), "the client uses its share")

		other, _ := begin(t, l, "modest")
		l.HandleRPC(other, large)
		l.HandleRPC(other, &stats.End{})

		l.HandleRPC(waiting[0], &stats.End{})
		synctest.Wait()
		require.True(t, isClosed(read))

		for _, ctx := range append(waiting[1:], ctx) {
			l.HandleRPC(ctx, &stats.End{})
		}

		require.Empty(t, l.reads.clients)
		require.Empty(t, l.bytes.clients)
	})
}
