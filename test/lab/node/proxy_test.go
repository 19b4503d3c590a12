// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntrance_ReachesAdmittedServersOnly(t *testing.T) {
	t.Parallel()
	entrance := &Entrance{}
	proxy := httptest.NewServer(http.HandlerFunc(entrance.connect))
	defer proxy.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") }))
	defer server.Close()

	etcd := httptest.NewServer(http.NotFoundHandler())
	defer etcd.Close()
	require.NoError(t, entrance.Admit(server.URL))
	require.ErrorContains(t, entrance.Admit("127.0.0.1:1"), "admit clients")

	through, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	client := server.Client()
	transport, ok := client.Transport.(*http.Transport)
	require.True(t, ok)
	transport.Proxy = func(*http.Request) (*url.URL, error) { return through, nil }
	response, err := client.Get(server.URL) //nolint:noctx // the server answers at once
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // read-only
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "inside", string(body))

	require.Equal(t, http.StatusForbidden, connectTo(t, proxy.Listener.Addr().String(), etcd.Listener.Addr().String()), "it also listens on loopback")
}

// connectTo returns the status of a CONNECT request.
func connectTo(t *testing.T, proxy, target string) int {
	t.Helper()
	connection, err := net.Dial("tcp", proxy) //nolint:noctx // the server listens
	require.NoError(t, err)
	defer connection.Close() //nolint:errcheck // the test has read what it needs
	_, err = io.WriteString(connection, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // read-only
	return response.StatusCode
}
