// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

func noProxy(*http.Request) (*url.URL, error) { return nil, nil } //nolint:nilnil // It is the contract of a proxy function.

// listen returns the port of a server on the loopback interface, and the number of its connections.
func listen(t *testing.T) (port string, accepted chan struct{}) {
	t.Helper()

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	accepted = make(chan struct{}, 10)
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			accepted <- struct{}{}

			_ = connection.Close() // Only the attempt counts.
		}
	}()

	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-ended
	})

	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)

	return port, accepted
}

// resolveToLoopback makes every name resolve to 127.0.0.1, and returns the names that are looked up.
func resolveToLoopback(t *testing.T) chan string {
	t.Helper()

	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)

	names := make(chan string, 10)
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		for buffer := make([]byte, 1<<10); ; {
			size, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}

			name, answer := answerLoopback(buffer[:size])
			names <- name

			_, _ = server.WriteTo(answer, from) // Without it, the lookup fails.
		}
	}()

	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}

	t.Cleanup(func() {
		net.DefaultResolver = before

		require.NoError(t, server.Close())
		<-ended
	})

	return names
}

// answerLoopback returns the name of a DNS query, and the answer: 127.0.0.1, and no IPv6 address (RFC 1035).
func answerLoopback(query []byte) (string, []byte) {
	const header, typeAndClass, typeA = 12, 4, 1

	name := ""
	end := header
	for length := int(query[end]); length > 0; length = int(query[end]) {
		name += string(query[end+1:end+1+length]) + "."
		end += 1 + length
	}

	question := query[header : end+1+typeAndClass]
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)

	if question[len(question)-3] == typeA {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
	}

	return name, answer
}

// TestDialTo_Resolved refuses addresses to which the name of a server resolves, before it connects.
func TestDialTo_Resolved(t *testing.T) { //nolint:paralleltest // It replaces the process's resolver.
	names := resolveToLoopback(t)
	port, accepted := listen(t)

	dial, err := dialTo("https://api.example.com", noProxy, ExternalServers)
	require.NoError(t, err)

	for _, host := range []string{"api.example.com", "kube-apiserver.shoot--a--b", "127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "169.254.169.254"} {
		_, err := dial(t.Context(), "tcp", net.JoinHostPort(host, port))

		var internal *kubeconfig.InternalServerError

		require.ErrorAs(t, err, &internal, host)
	}

	require.Empty(t, accepted)
	require.NotEmpty(t, names)

	for len(names) > 0 {
		require.Contains(t, []string{"api.example.com.", "kube-apiserver.shoot--a--b."}, <-names, "the search domains of a pod are not tried")
	}

	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "api.example.com.:"+port)
	require.NoError(t, err, "the name resolves to the listener")
	require.NoError(t, connection.Close())
}

// TestDialTo_AnyServer connects to all servers.
func TestDialTo_AnyServer(t *testing.T) {
	t.Parallel()

	port, accepted := listen(t)

	dial, err := dialTo("https://localhost", noProxy, AnyServer)
	require.NoError(t, err)

	connection, err := dial(t.Context(), "tcp", "localhost:"+port)
	require.NoError(t, err)
	require.NoError(t, connection.Close())

	<-accepted
}

// TestDialTo_Proxy reaches a proxy of the operator at any address.
func TestDialTo_Proxy(t *testing.T) {
	t.Parallel()

	port, accepted := listen(t)
	proxy := func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}, nil }

	dial, err := dialTo("https://api.example.com", proxy, ExternalServers)
	require.NoError(t, err)

	connection, err := dial(t.Context(), "tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	require.NoError(t, connection.Close())

	<-accepted

	_, err = dialTo("https://kubernetes.default.svc", proxy, ExternalServers)
	require.Error(t, err, "the proxy would resolve it in its own cluster")
}

// TestDialTo_OwnAPIServer refuses the API server of the client's cluster by its address, too.
func TestDialTo_OwnAPIServer(t *testing.T) { //nolint:paralleltest // It sets an environment variable.
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

	_, err := dialTo("https://10.0.0.1:443", noProxy, ExternalServers)
	require.ErrorIs(t, err, errOwnAPIServer)

	require.ErrorIs(t, refuseInternal(t.Context(), "tcp", "[::ffff:10.0.0.1]:443", nil), errOwnAPIServer)
	require.NoError(t, refuseInternal(t.Context(), "tcp", "10.0.0.2:443", nil))
}

// TestResolved_Addresses keeps the addresses of the own API server for a while, and no failure.
func TestResolved_Addresses(t *testing.T) {
	t.Parallel()

	calls := 0
	known := netip.MustParseAddr("10.0.0.1")
	failing := func(context.Context, string, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }
	working := func(context.Context, string, string) ([]netip.Addr, error) {
		calls++

		return []netip.Addr{known}, nil
	}

	r := &resolved{}
	require.Empty(t, r.addresses(t.Context(), failing))
	require.Less(t, time.Until(r.until), 30*time.Second, "a failure is not kept for long")

	r.until = time.Now()
	require.Contains(t, r.addresses(t.Context(), working), known)
	require.Contains(t, r.addresses(t.Context(), working), known)
	require.Equal(t, 2, calls, "one for each name")

	r.until = time.Now()
	require.Contains(t, r.addresses(t.Context(), failing), known, "the last addresses remain")
}

func TestNew_InternalServer(t *testing.T) {
	t.Parallel()

	for _, server := range []string{"https://127.0.0.1:6443", "https://localhost", "https://kubernetes.default.svc", "https://169.254.169.254", "https://127.1"} {
		_, _, err := New(&rest.Config{Host: server}, NewSemaphores(), ExternalServers)
		require.ErrorContains(t, err, "field server of the current context is refused", server)

		_, _, err = New(&rest.Config{Host: server}, NewSemaphores(), AnyServer)
		require.NoError(t, err, server)
	}
}

// TestAbsolute keeps names from being completed with the search domains of a pod.
func TestAbsolute(t *testing.T) {
	t.Parallel()

	for address, want := range map[string]string{
		"api.example.com:443": "api.example.com.:443", "api.example.com.:443": "api.example.com.:443",
		"10.1.2.3:443": "10.1.2.3:443", "[fd12::1]:443": "[fd12::1]:443", "kube-apiserver.shoot--a--b:443": "kube-apiserver.shoot--a--b.:443",
	} {
		require.Equal(t, want, absolute(address))
	}
}
