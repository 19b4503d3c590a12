// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bodyFor returns the body of a response to a request with this slot; nil for none.
func bodyFor(t *testing.T, text string, watch bool, slot *ReadSlot) *responseBody {
	t.Helper()

	ctx, timer := timed(t.Context(), watch)
	t.Cleanup(timer.end)

	return bodyOf(ctx, &http.Response{Body: io.NopCloser(strings.NewReader(text))}, watch, slot, timer)
}

// slotFor returns the slot of a request to a server.
func slotFor(ctx context.Context, of *Semaphores, server string) *ReadSlot {
	ctx, _ = WithReadSlot(ctx)

	return of.of(server).slotOf(ctx)
}

// TestBodyOf_Bounds allows only pages of lists to be large.
func TestBodyOf_Bounds(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason      string
		watch, slot bool
		most        int64
		excess      error
	}{
		"Object":      {reason: "a call keeps it", most: maxKept, excess: errMemory},
		"Page":        {reason: "it is dropped before the next one", slot: true, most: maxPage, excess: ErrPage},
		"Watch":       {reason: "a call keeps an event", watch: true, most: maxKept, excess: errMemory},
		"WatchInSlot": {reason: "a watch would hold the slot for minutes", watch: true, slot: true, most: maxKept, excess: errMemory},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var slot *ReadSlot
			if tc.slot {
				slot = slotFor(t.Context(), NewSemaphores(), "https://a")
			}

			b := bodyFor(t, "{}", tc.watch, slot)
			require.Equal(t, tc.most, b.most, tc.reason)
			require.Equal(t, tc.excess, b.excess)
			require.Equal(t, tc.watch, b.events != nil, "only a watch has several documents")
			require.Equal(t, tc.slot && !tc.watch, b.slot != nil, tc.reason)
		})
	}
}

// TestResponseBody_Slot reads a page that takes no slot, and one that does.
func TestResponseBody_Slot(t *testing.T) {
	t.Parallel()

	slot := slotFor(t.Context(), NewSemaphores(), "https://a")

	small := bodyFor(t, `"`+strings.Repeat("x", smallPage/costOfByte-3)+`"`, false, slot)
	_, err := io.Copy(io.Discard, small)
	require.NoError(t, err)
	require.False(t, slot.held, "a small page needs no slot")

	large := bodyFor(t, `"`+strings.Repeat("x", smallPage/costOfByte-1)+`"`, false, slot)
	_, err = io.Copy(io.Discard, large)
	require.NoError(t, err)
	require.True(t, slot.held)
	require.Equal(t, int64(2*(smallPage/costOfByte))*costOfByte, slot.Cost(), "each page counts")

	for range 2 { // net/http closes a body again.
		require.NoError(t, small.Close())
		require.NoError(t, large.Close())
	}

	require.True(t, slot.held, "its caller releases it")
	slot.Release()
	slot.Release()
	require.True(t, slot.semaphores.ofProcess.TryAcquire(maxLargeReads))
	require.True(t, slot.semaphores.ofCluster.TryAcquire(maxLargeReadsPerCluster))
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader

	bytes int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += n

	return n, err
}

// TestResponseBody_WaitsForSlot requires that a large page is not read before its slot, and not without an end.
func TestResponseBody_WaitsForSlot(t *testing.T) {
	t.Parallel()

	all := NewSemaphores()
	first := slotFor(t.Context(), all, "https://a")
	require.NoError(t, first.acquire(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	body := &counted{Reader: endlessReader{}}
	waiting := bodyFor(t, "", false, slotFor(t.Context(), all, "https://a"))
	waiting.ReadCloser = io.NopCloser(body)
	waiting.ctx = ctx

	time.AfterFunc(10*time.Millisecond, cancel)

	_, err := io.Copy(io.Discard, waiting)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, smallPage/costOfByte, body.bytes, "only a small page was read")

	first.Release()

	endless := bodyFor(t, "", false, first)
	endless.ReadCloser = io.NopCloser(body)
	_, err = io.Copy(io.Discard, endless)
	require.ErrorIs(t, err, ErrPage)
	require.LessOrEqual(t, body.bytes, (3*smallPage+maxPage)/costOfByte)
}

// TestResponseBody_SlowPage requires that a large page holds its slot for a bounded time.
func TestResponseBody_SlowPage(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		for closed, want := range map[bool]error{false: context.DeadlineExceeded, true: context.Canceled} {
			b := bodyFor(t, `"`+strings.Repeat("x", smallPage/costOfByte)+`"`, false, slotFor(t.Context(), NewSemaphores(), "https://a"))
			_, err := io.Copy(io.Discard, b)
			require.NoError(t, err)

			if closed {
				require.NoError(t, b.Close())
			}

			time.Sleep(largeReadTimeout + time.Second) //nolint:forbidigo // The bubble's clock.
			require.Equal(t, want, context.Cause(b.ctx))
		}
	})
}

// TestResponseBody_Watch reads the events of a watch, in small pieces.
func TestResponseBody_Watch(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		const events = `{"type":"ADDED"}{"type":"DELETED"}`

		text, err := io.ReadAll(iotest.OneByteReader(bodyFor(t, events, true, nil)))
		require.NoError(t, err)
		require.Len(t, text, len(events))
	})
}

// TestReadSlot_Waits lets the large pages of a cluster wait for each other, but not for those of another one.
func TestReadSlot_Waits(t *testing.T) {
	t.Parallel()

	all := NewSemaphores()
	first := slotFor(t.Context(), all, "https://A:6443/x")
	second := slotFor(t.Context(), all, "https://a:6443")
	other := slotFor(t.Context(), all, "https://b")

	require.NoError(t, first.acquire(t.Context()))
	require.NoError(t, first.acquire(t.Context()), "its pages share it")

	require.False(t, second.semaphores.ofCluster.TryAcquire(1), "the host is the same")
	require.NoError(t, other.acquire(t.Context()))
	first.Release()
	require.NoError(t, second.acquire(t.Context()))

	require.True(t, all.process.TryAcquire(maxLargeReads-2))

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()

	third := slotFor(t.Context(), all, "https://c")
	require.ErrorIs(t, third.acquire(ctx), context.DeadlineExceeded, "the process reads enough at a time")
	require.True(t, third.semaphores.ofCluster.TryAcquire(maxLargeReadsPerCluster), "the cluster's next page need not wait")
}
