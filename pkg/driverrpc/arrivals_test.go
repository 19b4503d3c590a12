package driverrpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/stats"
)

// arrive begins a call of a client. The returned channel is closed when its request may be read.
func arrive(t *testing.T, a *arrivals, client string) (ctx context.Context, begun chan struct{}) {
	t.Helper()

	ctx, err := a.tap(as(t.Context(), client), nil)
	require.NoError(t, err)

	begun = make(chan struct{})

	go func() {
		a.HandleRPC(ctx, &stats.Begin{})
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

// TestRequestsAreReadInTurns has a client begin more requests than may be read at a time.
func TestRequestsAreReadInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()

		var reading []context.Context

		for range readAtATime / partOfClient {
			ctx, begun := arrive(t, a, "greedy")
			require.True(t, isClosed(begun))

			reading = append(reading, ctx)
		}

		last, waits := arrive(t, a, "greedy")
		require.False(t, isClosed(waits), "a client has a part of the places")

		other, begun := arrive(t, a, "modest")
		require.True(t, isClosed(begun))

		time.Sleep(readTimeout) //nolint:forbidigo // The bubble's clock.
		synctest.Wait()
		require.ErrorIs(t, reading[0].Err(), context.Canceled, "whoever sends too slowly is cut off")

		for _, ctx := range append(reading, other) {
			a.HandleRPC(ctx, &stats.End{})
		}

		synctest.Wait()
		require.True(t, isClosed(waits))
		a.HandleRPC(last, &stats.End{})
		require.Empty(t, a.clients, "who has no calls is forgotten")
	})
}

// TestBytesOfRequestsAreBounded has a client keep large requests waiting.
func TestBytesOfRequestsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, large := newArrivals(), &stats.InPayload{Length: maxRequest}

		var waiting []context.Context

		for range maxArrived / partOfClient / maxRequest {
			ctx, _ := arrive(t, a, "greedy")
			a.HandleRPC(ctx, large)

			waiting = append(waiting, ctx)
		}

		ctx, _ := arrive(t, a, "greedy")
		taken := make(chan struct{})

		go func() {
			a.HandleRPC(ctx, large)
			close(taken)
		}()

		synctest.Wait()
		require.False(t, isClosed(taken), "a client has a part of the bytes")

		other, _ := arrive(t, a, "modest")
		a.HandleRPC(other, large)
		a.HandleRPC(other, &stats.End{})

		a.HandleRPC(waiting[0], &stats.End{})
		synctest.Wait()
		require.True(t, isClosed(taken))

		for _, ctx := range append(waiting[1:], ctx) {
			a.HandleRPC(ctx, &stats.End{})
		}

		require.Empty(t, a.clients)
	})
}
