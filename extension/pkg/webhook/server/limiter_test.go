// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// from returns a request from an address, with a body of a length.
func from(ctx context.Context, address string, length int64) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	r.RemoteAddr = address
	r.ContentLength = length

	return r
}

// TestLimited_Body refuses bodies that are too large before it reads them.
func TestLimited_Body(t *testing.T) {
	t.Parallel()

	l := newLimiter(total, share)
	server := httptest.NewServer(l.limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err != nil || n != r.ContentLength {
			w.WriteHeader(http.StatusBadRequest)
		}
	})))
	t.Cleanup(server.Close)

	for name, tc := range map[string]struct {
		reason string
		body   io.Reader
		want   int
	}{
		"Largest":  {reason: "an update of a large object", body: strings.NewReader(strings.Repeat("a", maxBody)), want: http.StatusOK},
		"Empty":    {reason: "no webhook, but harmless", body: http.NoBody, want: http.StatusOK},
		"TooLarge": {reason: "larger than objects are", body: strings.NewReader(strings.Repeat("a", maxBody+1)), want: http.StatusRequestEntityTooLarge},
		"Unknown":  {reason: "API servers state the length", body: io.MultiReader(strings.NewReader("a")), want: http.StatusLengthRequired},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, tc.body)
		require.NoError(t, err, name)

		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err, name)
		require.NoError(t, response.Body.Close(), name)
		require.Equal(t, tc.want, response.StatusCode, tc.reason)
	}
}

// TestLimited_Response responds with 429 to a request without a place: a denial would block the object.
func TestLimited_Response(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	l := newLimiter(1, 1)
	w := httptest.NewRecorder()
	l.limited(http.NotFoundHandler()).ServeHTTP(w, from(ctx, "10.0.0.1:1", 1))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Empty(t, l.senders)
}

// TestAcquire_Share serves other senders while one has used its share.
func TestAcquire_Share(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(3*maxBody, 2*maxBody)

		first, err := l.acquire(from(t.Context(), "10.0.0.1:1", maxBody), maxBody)
		require.NoError(t, err)

		second, err := l.acquire(from(t.Context(), "[::ffff:10.0.0.1]:2", maxBody), maxBody)
		require.NoError(t, err)

		_, err = l.acquire(from(t.Context(), "10.0.0.1:3", maxBody), minWeight)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the share is in use")

		other, err := l.acquire(from(t.Context(), "10.0.0.2:1", maxBody), maxBody)
		require.NoError(t, err, "a sender takes its share only")

		_, err = l.acquire(from(t.Context(), "10.0.0.3:1", maxBody), minWeight)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the total is in use")
		require.Len(t, l.senders, 2)

		served := make(chan error)

		go func() {
			release, err := l.acquire(from(t.Context(), "10.0.0.1:3", maxBody), maxBody)
			if err == nil {
				release()
			}

			served <- err
		}()

		synctest.Wait()
		first()
		require.NoError(t, <-served, "it waited for the place")

		second()
		other()
		require.Empty(t, l.senders, "senders without requests take no memory")
	})
}

// TestAcquire_Context ends the wait of a request whose API server does not wait any more.
func TestAcquire_Context(t *testing.T) {
	t.Parallel()

	l := newLimiter(minWeight, minWeight)

	release, err := l.acquire(from(t.Context(), "10.0.0.1:1", 1), minWeight)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	for _, address := range []string{"10.0.0.1:2", "10.0.0.2:1"} {
		_, err = l.acquire(from(ctx, address, 1), minWeight)
		require.ErrorIs(t, err, context.Canceled)
	}

	release()
	require.Empty(t, l.senders)

	_, err = l.acquire(from(t.Context(), "@", 1), minWeight)
	require.Error(t, err, "a sender without an address has no share")
}

// TestEnter_TooMany bounds the requests that wait.
func TestEnter_TooMany(t *testing.T) {
	t.Parallel()

	l := newLimiter(2*queue, 2*queue)
	for range queue / maxBody {
		_, err := l.acquire(from(t.Context(), "10.0.0.1:1", maxBody), maxBody)
		require.NoError(t, err)
	}

	_, err := l.acquire(from(t.Context(), "10.0.0.1:1", 1), minWeight)
	require.ErrorIs(t, err, errTooMany)

	_, err = l.acquire(from(t.Context(), "10.0.0.2:1", 1), minWeight)
	require.NoError(t, err, "another sender has its own queue")
}
