// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
)

// serveTLS serves on a local port, and returns the endpoint for clients.
func serveTLS(t *testing.T, files driverrpc.Files, clients ...string) string {
	t.Helper()

	creds, err := driverrpc.ServerCredentials(files, clients)
	require.NoError(t, err)

	endpoint, err := driverrpc.ParseEndpoint("tcp://127.0.0.1:0")
	require.NoError(t, err)

	listener, err := endpoint.Listen(t.Context())
	require.NoError(t, err)

	options := optionsOf(prometheus.NewRegistry())
	options.Credentials = creds

	server, err := driverrpc.NewServer(respondWith(nil, true), options)
	require.NoError(t, err)

	go func() { _ = server.Serve(listener) }() // It ends with the test.

	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		server.Stop(now)
	})

	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)

	return "dns:///127.0.0.1:" + port
}

// A refused client retries until its context ends.
const (
	success = time.Minute
	refusal = 5 * time.Second // The error names the cause only if the handshake has failed by then.
)

// callTLS makes a call over a new connection.
func callTLS(t *testing.T, endpoint string, files driverrpc.Files, serverName string, limit time.Duration) error {
	t.Helper()

	creds, err := driverrpc.ClientCredentials(files, serverName)
	require.NoError(t, err)

	client, err := driverrpc.NewClient(endpoint, creds)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // The error does not matter.

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	_, err = client.ListMachines(ctx, &driver.ListMachinesRequest{})

	return err
}

// TestServerCredentials_MutualTLS verifies which clients a server over TCP accepts, and
// which servers a client accepts.
func TestServerCredentials_MutualTLS(t *testing.T) {
	t.Parallel()

	ours := certificates.NewAuthority(t)
	theirs := certificates.NewAuthority(t)
	endpoint := serveTLS(t, ours.Issue(t, t.TempDir(), certificates.Server("driver.example.com")), "shoot-a", "shoot-b.example.com", "spiffe://example.com/shoot-c")

	spiffe, err := url.Parse("spiffe://example.com/shoot-c")
	require.NoError(t, err)

	named := certificates.Client("anything")
	named.DNSNames = []string{"shoot-b.example.com"}
	located := certificates.Client("")
	located.URIs = []*url.URL{spiffe}
	expired := certificates.Client("shoot-a")
	expired.NotAfter = time.Now().Add(-time.Minute)

	const right, wrong = "driver.example.com", "other.example.com"

	tests := map[string]struct {
		reason      string
		authority   *certificates.Authority
		certificate x509.Certificate
		serverName  string
		err         string
	}{
		"common name":       {"it is allowed", ours, certificates.Client("shoot-a"), right, ""},
		"DNS name":          {"it is allowed", ours, named, right, ""},
		"URI":               {"it is allowed", ours, located, right, ""},
		"unknown name":      {"the authority may issue certificates to others", ours, certificates.Client("shoot-d"), right, "DriverUnavailable"},
		"no name":           {"it has no identity", ours, certificates.Client(""), right, "DriverUnavailable"},
		"server as client":  {"the certificate is not for clients", ours, certificates.Server("driver.example.com"), right, "DriverUnavailable"},
		"expired":           {"its certificate is no longer valid", ours, expired, right, "DriverUnavailable"},
		"another authority": {"neither trusts the authority of the other", theirs, certificates.Client("shoot-a"), right, "DriverUnavailable"},
		"another server":    {"the client requires another name of the server", ours, certificates.Client("shoot-a"), wrong, "other.example.com"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			files := tc.authority.Issue(t, t.TempDir(), tc.certificate)
			if tc.err == "" {
				require.NoError(t, callTLS(t, endpoint, files, tc.serverName, success), tc.reason)

				return
			}

			require.ErrorContains(t, callTLS(t, endpoint, files, tc.serverName, refusal), tc.err, tc.reason)
		})
	}

	_, err = driverrpc.ServerCredentials(ours.Issue(t, t.TempDir(), certificates.Server("driver.example.com")), nil)
	require.ErrorContains(t, err, "no client is allowed")

	_, err = driverrpc.ServerCredentials(ours.Issue(t, t.TempDir(), certificates.Server("driver.example.com")), []string{"shoot-a", ""})
	require.ErrorContains(t, err, "empty name", "it would match every certificate without a common name")
}

// TestReloading_RotatedCertificates replaces all certificates and the authority of a
// running server and a running client.
func TestReloading_RotatedCertificates(t *testing.T) {
	t.Parallel()

	before := certificates.NewAuthority(t)
	after := certificates.NewAuthority(t)
	serverFolder := t.TempDir()
	clientFolder := t.TempDir()
	endpoint := serveTLS(t, before.Issue(t, serverFolder, certificates.Server("driver.example.com")), "shoot-a")
	old := before.Issue(t, t.TempDir(), certificates.Client("shoot-a"))
	files := before.Issue(t, clientFolder, certificates.Client("shoot-a"))

	creds, err := driverrpc.ClientCredentials(files, "driver.example.com")
	require.NoError(t, err)

	call := func() error {
		client, err := driverrpc.NewClient(endpoint, creds)
		require.NoError(t, err)

		defer func() { _ = client.Close() }() // The error does not matter.

		ctx, cancel := context.WithTimeout(t.Context(), success)
		defer cancel()

		_, err = client.ListMachines(ctx, &driver.ListMachinesRequest{})

		return err
	}
	require.NoError(t, call())

	// During a rotation, the key and the certificate do not match.
	require.NoError(t, os.WriteFile(filepath.Join(serverFolder, "tls.key"), nil, 0o600))
	require.NoError(t, os.WriteFile(files.Certificate, nil, 0o600))
	require.NoError(t, call(), "the previous certificates remain in use")

	after.Issue(t, serverFolder, certificates.Server("driver.example.com"))
	after.Issue(t, clientFolder, certificates.Client("shoot-a"))
	require.NoError(t, call())
	require.Error(t, callTLS(t, endpoint, old, "driver.example.com", refusal), "certificates of the old authority are rejected")

	require.NoError(t, os.Remove(files.Key))

	_, err = driverrpc.ClientCredentials(files, "")
	require.ErrorContains(t, err, "tls.key")
}
