// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// provider is a server that records the credentials and the paths of its requests.
func provider(t *testing.T) (server *httptest.Server, seen *[]string) {
	t.Helper()

	seen = &[]string{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = append(*seen, r.Header.Get("Authorization")+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)

	return server, seen
}

// write writes the files of credentials, whose kubeconfig refers to the token's file.
func write(t *testing.T, folder string, server *httptest.Server, token string) {
	t.Helper()

	kubeconfig := strings.Replace(string(hostile.Kubeconfig(t, server)), "token: t", "tokenFile: /var/run/secrets/provider/token", 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(kubeconfig), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "token"), []byte(token), 0o600))
}

func get(t *testing.T, s *Source) {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://provider-cluster/api/v1/namespaces/n/services/a", http.NoBody)
	require.NoError(t, err)

	response, err := s.RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "provider-cluster", request.URL.Host, "a RoundTripper must not change the request")
}

// TestSource_RoundTrip sends requests with the latest credentials, also to another server, and keeps the last
// credentials that could be read.
func TestSource_RoundTrip(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	first, seen := provider(t)
	second, seenBySecond := provider(t)
	s := NewSource(In(folder), transport.AnyServer)

	write(t, folder, first, "1")
	get(t, s)
	write(t, folder, first, "2")
	get(t, s)

	s.read = time.Time{} // some seconds later

	get(t, s)
	require.NoError(t, os.Remove(filepath.Join(folder, "kubeconfig")))

	s.read = time.Time{}

	get(t, s)

	const path = "/api/v1/namespaces/n/services/a"

	require.Equal(t, []string{"Bearer 1" + path, "Bearer 1" + path, "Bearer 2" + path, "Bearer 2" + path}, *seen)

	write(t, folder, second, "3")

	s.read = time.Time{}

	get(t, s)
	require.Equal(t, []string{"Bearer 3" + path}, *seenBySecond)
}

// TestSource_Target reads the namespace, accepts a kubeconfig with its own token, and names what is missing.
func TestSource_Target(t *testing.T) {
	t.Parallel()

	server, _ := provider(t)
	file := filepath.Join(t.TempDir(), "provider.yaml")
	s := NewSource(Beside(file), transport.AnyServer)

	_, err := s.Target()
	require.ErrorContains(t, err, "read the kubeconfig of the provider cluster")
	require.NoError(t, os.WriteFile(file, hostile.Kubeconfig(t, server), 0o600))

	to, err := s.Target()
	require.NoError(t, err)
	require.Equal(t, server.URL, to.Server.String())
	require.NotEmpty(t, to.Namespace)

	_, err = NewSource(Beside(file), transport.ExternalServers).Target()
	require.ErrorContains(t, err, "loopback")

	_, err = NewSource(Beside(""), transport.ExternalServers).Target()
	require.ErrorContains(t, err, "without a kubeconfig, the provider cluster is the one in which the program runs")
}
