// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// TestWatchObject_KeepsConnection watches an object that does not change. It asks the server to end the watch before
// its own time is over, so that the next request needs no new connection.
func TestWatchObject_KeepsConnection(t *testing.T) {
	t.Parallel()

	var opened, asked atomic.Int64

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		if !r.URL.Query().Has("watch") {
			w.WriteHeader(http.StatusNotFound)

			return
		}

		seconds, err := strconv.ParseInt(r.URL.Query().Get("timeoutSeconds"), 10, 64)
		assert.NoError(t, err)
		asked.Store(seconds)
		assert.NoError(t, http.NewResponseController(w).Flush())
		// The handler returns, as that of an API server does when these seconds are over.
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000}).For(hostile.Kubeconfig(t, server))
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()

	events, err := clients.VirtualMachines().WatchObject(ctx, metav1.ObjectMeta{Name: "m"})
	require.NoError(t, err)

	for range events.ResultChan() {
		assert.Fail(t, "nothing changes")
	}

	require.Less(t, asked.Load(), int64(time.Hour/time.Second), "the server ends the watch first")
	require.Greater(t, asked.Load(), int64(50*time.Minute/time.Second), "the watch is not repeated without need")

	_, err = clients.VirtualMachines().Get(t.Context(), "m")
	require.Error(t, err) // The response is not that of an API server.
	require.EqualValues(t, 1, opened.Load())
}
