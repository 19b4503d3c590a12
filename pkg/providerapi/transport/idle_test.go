// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// TestNewConnections_Reused sends as many requests at a time as machine-controller-manager has workers. The next ones need
// no new connections, each of which costs two round trips.
func TestNewConnections_Reused(t *testing.T) {
	t.Parallel()

	const workers = 50

	var (
		opened  atomic.Int64
		arrived sync.WaitGroup
	)

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait() // All connections are in use.

		w.Header().Set("Content-Type", jsonType)
		_, _ = w.Write([]byte("{}")) // The client reads it.
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	client, connections, err := New(&rest.Config{
		Host: server.URL,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
	}, NewSemaphores(), AnyServer)
	require.NoError(t, err)
	t.Cleanup(connections.CloseIdleConnections)

	for range 3 {
		arrived.Add(workers)

		failures := make([]error, workers)

		var sending sync.WaitGroup

		for i := range workers {
			sending.Go(func() { failures[i] = get(t, client, server.URL) })
		}

		sending.Wait()

		for _, failed := range failures {
			require.NoError(t, failed)
		}
	}

	require.EqualValues(t, workers, opened.Load())
}

// get reads a response to its end, so that its connection can be used again.
func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}

	resp, err := client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.

	_, err = io.Copy(io.Discard, resp.Body)

	return err
}
