// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// TestLine_Distance counts the round trips of requests: a new connection takes one for TCP and one for TLS. A shorter
// time is impossible, whatever else the machine does.
func TestLine_Distance(t *testing.T) {
	t.Parallel()

	const roundTrip = 40 * time.Millisecond

	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l, far, client := distantServer(t, http2, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body) // The client reads it.
			})
			l.Move(Distance{RoundTrip: roundTrip})

			body := strings.Repeat("x", 8<<20)

			for _, roundTrips := range []int{3, 1} {
				began := time.Now()

				_, err := post(t, client, far, "x")
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(began), time.Duration(roundTrips)*roundTrip)
			}

			got, err := post(t, client, far, body)
			require.NoError(t, err)
			require.Equal(t, body, got)
		})
	}
}

// TestLine_Losses loses the same requests in each run, and some of them only after the cluster has carried them out.
func TestLine_Losses(t *testing.T) {
	t.Parallel()

	const sent = 100

	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var carriedOut atomic.Int64

			var runs [2][]int

			for run := range runs {
				l, far, client := distantServer(t, http2, func(http.ResponseWriter, *http.Request) { carriedOut.Add(1) })
				l.Move(Distance{OneLostIn: 10})

				for i := range sent {
					if _, err := post(t, client, far, "x"); err != nil {
						runs[run] = append(runs[run], i)
					}
				}

				require.NotEmpty(t, runs[run])
				require.Len(t, l.Lost(), len(runs[run]))
			}

			require.Equal(t, runs[0], runs[1])
			require.Greater(t, int(carriedOut.Load()), 2*(sent-len(runs[0])))
			require.Less(t, int(carriedOut.Load()), 2*sent)
		})
	}
}

// TestLine_LosesConnection counts each request on a lost connection.
func TestLine_LosesConnection(t *testing.T) {
	t.Parallel()

	arrived := make(chan struct{})

	l, far, client := distantServer(t, true, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/watch" {
			close(arrived)
			<-r.Context().Done()
		}
	})

	ended := make(chan error)

	go func() {
		_, err := post(t, client, far+"/watch", "")
		ended <- err
	}()

	<-arrived
	l.Move(Distance{OneLostIn: 1})

	_, err := post(t, client, far, "x")
	require.Error(t, err)
	require.Error(t, <-ended)

	// The line notices the end of a connection after the client.
	require.NoError(t, wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
		return len(l.Lost()) == 2, nil
	}))
}

// TestLine_DownResetsConnection ends the connection of a request, and not only the request, over HTTP/2, too.
func TestLine_DownResetsConnection(t *testing.T) {
	t.Parallel()

	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l, far, client := distantServer(t, http2, func(http.ResponseWriter, *http.Request) {})
			reset := FaultNamed(t, "reset before")
			l.Down.Store(&reset)

			_, err := post(t, client, far, "x")
			require.Error(t, err)
			require.NotContains(t, err.Error(), "stream error")

			l.Down.Store(nil)

			_, err = post(t, client, far, "x")
			require.NoError(t, err)
		})
	}
}

// post sends a write, which http.Transport does not repeat by itself, and returns the response.
func post(t *testing.T, client *http.Client, url, body string) (string, error) {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}

	resp, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.

	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}

	got, err := io.ReadAll(resp.Body)

	return string(got), err
}

// distantServer returns a distant line to a server, its URL, and a client.
func distantServer(t *testing.T, http2 bool, serve http.HandlerFunc) (*Line, string, *http.Client) {
	t.Helper()

	cluster := httptest.NewTLSServer(serve)
	t.Cleanup(cluster.Close)

	l, server := newDistantLine(t, &rest.Config{
		Host: cluster.URL,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw}),
		},
	})

	client := server.Client()
	through, ok := client.Transport.(*http.Transport)
	require.True(t, ok)

	through.ForceAttemptHTTP2 = http2
	through.Protocols = new(http.Protocols)
	through.Protocols.SetHTTP1(!http2)
	through.Protocols.SetHTTP2(http2)

	return l, server.URL, client
}
