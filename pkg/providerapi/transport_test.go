// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// serve returns the kubeconfig of an API server with the given handler.
func serve(t *testing.T, answer http.HandlerFunc) []byte {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// As an API server does: net/http closes a connection with more than 256 KiB left to read, and the
		// reset may overtake the response.
		_, _ = io.Copy(io.Discard, r.Body)

		answer(w, r)
	}))
	t.Cleanup(server.Close)
	// An endless handler ends when its client disconnects.
	t.Cleanup(server.CloseClientConnections)

	return kubeconfigOf(t, server, hostile.Token)
}

func kubeconfigOf(t *testing.T, server *httptest.Server, token string) []byte {
	t.Helper()

	return hostile.KubeconfigWith(t, func(cluster, user, _ object) {
		cluster["server"] = server.URL
		cluster["certificate-authority-data"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		user["token"] = token
	})
}

func clientsOf(t *testing.T, raw []byte) *providerapi.Clients {
	t.Helper()

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000}).For(raw)
	require.NoError(t, err)

	return clients
}

func get(ctx context.Context, clients *providerapi.Clients) error {
	_, err := clients.KubeVirt.KubevirtV1().VirtualMachines(clients.Namespace).Get(ctx, "m", metav1.GetOptions{})

	return err
}

// endless writes until the client disconnects.
func endless(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}

// TestCache_ExternalServers refuses the server of a kubeconfig on the host of the driver, and sends nothing to it.
func TestCache_ExternalServers(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32

	raw := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })

	_, err := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000, Servers: transport.ExternalServers}).For(raw)
	require.ErrorContains(t, err, "field server of the current context is refused: it is a loopback address")
	requireSilent(t, err)
	require.Zero(t, asked.Load())
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()

	var asked atomic.Int32

	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)

	for _, code := range []int{301, 302, 303, 307, 308} {
		clients := clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL+"/"+canary)
			w.WriteHeader(code)
		}))

		err := get(t.Context(), clients)
		require.Error(t, err, code)
		requireSilent(t, err)

		_, err = clients.KubeVirt.KubevirtV1().VirtualMachines("machines").Create(t.Context(), &kubevirtv1.VirtualMachine{}, metav1.CreateOptions{})
		require.Error(t, err, code)
		requireSilent(t, err)
	}

	require.Zero(t, asked.Load(), "credentials go to nobody else")
}

// TestClients_BoundsResponses has a server send endless responses: the client stops at a bound or at its
// caller's deadline, and disconnects.
func TestClients_BoundsResponses(t *testing.T) { //nolint:paralleltest // The memory of parallel tests would count.
	tests := map[string]struct {
		reason string
		answer http.HandlerFunc
		says   string
		// deadline is the caller's deadline; without one, the client must stop by itself. The test
		// passes however early the deadline is.
		deadline time.Duration
	}{
		"Endless": {"a body without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			endless(w, `{"a":"`+strings.Repeat(canary, 1000))
		}, "too large", 0},
		"Bomb": {"a small body that is large when it is unpacked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")

			zipped := gzip.NewWriter(w)
			endless(zipped, strings.Repeat(" ", 1<<20))
		}, "the response is not JSON", 0},
		"Elements": {"an array that is large when it has been read", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"spec":{"dataVolumeTemplates":[{}`+strings.Repeat(",{}", 15<<20/3)+`]}}`) // The client may disconnect.
		}, "too large", 0},
		"Error": {"an error without end", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, `{"kind":"Status","apiVersion":"v1","message":"`+strings.Repeat(canary, 1000))
		}, "not from a Kubernetes API server", 0},
		"Header": {"more headers than an API server sends", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Warning", strings.Repeat("x", 40<<10))
		}, "header", 0},
		"EmptyBlocks": {"blocks of gzip without end and content", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")

			for err := error(nil); err == nil; {
				err = gzip.NewWriter(w).Close()
			}
		}, "the response is not JSON", 0},
		"Headers": {"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Warning", `299 - "`+strings.Repeat(canary, 100_000)+`"`)
		}, "header", 0},
		"Slow": {"one byte at a time", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			drip(w, r)
		}, "", time.Second}, // The deadline or the end of the body, whichever comes first.
		"SlowError": {"an error, one byte at a time", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			drip(w, r)
		}, "", time.Second},
		"LongWait": {"a request to come back in a year", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "31536000")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "too many requests", 0},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(tc.answer)
			raw := kubeconfigOf(t, server, hostile.Token)

			ctx, cancel := context.WithCancel(t.Context())
			if tc.deadline > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tc.deadline)
			}

			var before, after runtime.MemStats

			runtime.ReadMemStats(&before)

			err := get(ctx, clientsOf(t, raw))

			cancel()
			runtime.ReadMemStats(&after)

			require.ErrorContains(t, err, tc.says, tc.reason)
			requireSilent(t, err)
			// This includes the server's own garbage and the copies of growing slices.
			require.Less(t, after.Sys-before.Sys, uint64(200<<20), "memory is bounded")

			server.Close() // Close returns when no request is active.
		})
	}
}

func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()

	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			_, _ = io.WriteString(w, " ") // The client disconnects eventually.

			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
	}
}

// TestOnlyStatusesAreRepeated sends responses with texts that no error may contain.
func TestOnlyStatusesAreRepeated(t *testing.T) {
	t.Parallel()

	page := "<html><body>" + canary + "</body></html>"
	status := func(kind, message string) string {
		raw, err := json.Marshal(map[string]any{"kind": kind, "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message})
		require.NoError(t, err)

		return string(raw)
	}

	tests := map[string]struct {
		reason  string
		code    int
		kind    string
		body    string
		says    string
		silence bool
	}{
		"Page500":      {"a proxy's page", 500, "text/html", page, "not from a Kubernetes API server", true},
		"Page403":      {"client-go repeats this one without quotes", 403, "text/html", page, "not from a Kubernetes API server", true},
		"Page404":      {"and this one in the causes", 404, "text/plain", page, "could not find", true},
		"Page401":      {"a proxy that wants a login", 401, "text/plain", page, "provide credentials", true},
		"Unsupported":  {"client-go repeats this one too", 415, "text/plain", page, "not from a Kubernetes API server", true},
		"NoType":       {"without a content type", 502, "", canary, "not from a Kubernetes API server", true},
		"OtherKind":    {"another object with a message", 403, "application/json", status("Secret", canary), "not from a Kubernetes API server", true},
		"TextStatus":   {"a Status, called text", 403, "text/plain", status("Status", "namespaces is forbidden"), "namespaces is forbidden", true},
		"Status":       {"what an API server says is repeated", 403, "application/json", status("Status", "a right is missing"), "a right is missing", false},
		"Protobuf":     {"nobody asked for it", 403, "application/vnd.kubernetes.protobuf", "k8s\x00" + canary, "not from a Kubernetes API server", true},
		"OtherAnswer":  {"nobody asked for it, either", 200, "application/yaml", canary, "the response is not JSON", true},
		"LongStatus":   {"up to a point", 403, "application/json", status("Status", strings.Repeat("x", 1<<20)), "not from a Kubernetes API server", true},
		"SwitchesOver": {"nobody asked for it", 101, "", "", "", true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := get(t.Context(), clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, tc.body) // A 101 response has no body.
			})))
			require.ErrorContains(t, err, tc.says, tc.reason)

			if tc.silence {
				requireSilent(t, err)
			}

			var answered apierrors.APIStatus
			if errors.As(err, &answered) && answered.Status().Details != nil {
				for _, cause := range answered.Status().Details.Causes {
					require.NotContains(t, cause.Message, canary)
				}
			}
		})
	}
}

// TestHostileWatches verifies that a watch delivers the events of a reasonable server, and that it ends at
// one that is too large.
func TestHostileWatches(t *testing.T) {
	t.Parallel()

	event := func(size int) string {
		return fmt.Sprintf(`{"type":"MODIFIED","object":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":%q}}}`+"\n", strings.Repeat("m", size))
	}

	clients := clientsOf(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		for range 100 {
			_, _ = io.WriteString(w, event(100<<10)) // The client keeps reading.
		}

		endless(w, event(1<<20))
	}))

	events, err := clients.KubeVirt.KubevirtV1().VirtualMachines("machines").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	defer events.Stop()

	for range 100 {
		require.IsType(t, &kubevirtv1.VirtualMachine{}, (<-events.ResultChan()).Object)
	}

	require.IsType(t, &metav1.Status{}, (<-events.ResultChan()).Object)
}

// TestCache_RotationSharesConnections replaces a token, as Gardener does every few minutes for a
// WorkloadIdentity. Each client sends its own token, and the connection remains. Other connection settings
// close it.
func TestCache_RotationSharesConnections(t *testing.T) {
	t.Parallel()

	var (
		last   atomic.Value
		opened atomic.Int32
	)

	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		default:
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	cache := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000})
	use := func(token, serverName string) {
		clients, err := cache.For(hostile.KubeconfigWith(t, func(cluster, user, _ object) {
			cluster["server"] = server.URL
			cluster["certificate-authority-data"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			cluster["tls-server-name"] = serverName
			user["token"] = token
		}))
		require.NoError(t, err)
		require.Error(t, get(t.Context(), clients))
		require.Equal(t, "Bearer "+token, last.Load())
	}

	for _, token := range []string{"old", "new", "old", "newest"} {
		use(token, "127.0.0.1")
	}

	require.EqualValues(t, 1, opened.Load(), "all tokens share a connection")
	require.Empty(t, closed)

	use("newest", "example.com")
	<-closed // The former connection is closed.
	require.EqualValues(t, 2, opened.Load())

	use("newest", "127.0.0.1")
	use("newest", "example.com")
	require.Empty(t, closed, "two users of one place do not disturb each other")
}
