package driverrpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
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
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)

	certificate, err := x509.ParseCertificate(raw)
	require.NoError(t, err)

	return &authority{certificate: certificate, key: key}
}

// issue writes a new certificate, its key and the authority's certificate into a folder.
func (a *authority) issue(t *testing.T, folder string, template x509.Certificate) driverrpc.Files {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}

	raw, err := x509.CreateCertificate(rand.Reader, &template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)

	files := driverrpc.Files{
		Certificate: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key"), Authorities: filepath.Join(folder, "ca.crt"),
	}
	write(t, files.Certificate, "CERTIFICATE", raw)
	write(t, files.Key, "PRIVATE KEY", private)
	write(t, files.Authorities, "CERTIFICATE", a.certificate.Raw)

	return files
}

func write(t *testing.T, path, kind string, raw []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
}

func serverCertificate() x509.Certificate {
	return x509.Certificate{DNSNames: []string{"driver.example.com"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

func clientCertificate(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// serveTLS serves on a port of this machine, and returns the endpoint for clients.
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

	server, err := driverrpc.NewServer(answering(nil, true), options)
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

// A client that is refused tries again until its context is over.
const (
	patience = time.Minute
	refusal  = 500 * time.Millisecond
)

// ask makes a call over a connection of its own.
func ask(t *testing.T, endpoint string, files driverrpc.Files, serverName string, limit time.Duration) error {
	t.Helper()

	creds, err := driverrpc.ClientCredentials(files, serverName)
	require.NoError(t, err)

	client, err := driverrpc.NewClient(endpoint, creds)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // It was read from.

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	_, err = client.ListMachines(ctx, &driver.ListMachinesRequest{})

	return err
}

// TestWhoIsServed shows whom a server over TCP answers, and whom a client believes.
func TestWhoIsServed(t *testing.T) {
	t.Parallel()

	ours, theirs := newAuthority(t), newAuthority(t)
	endpoint := serveTLS(t, ours.issue(t, t.TempDir(), serverCertificate()), "shoot-a", "shoot-b.example.com", "spiffe://example.com/shoot-c")

	spiffe, err := url.Parse("spiffe://example.com/shoot-c")
	require.NoError(t, err)

	named := clientCertificate("anything")
	named.DNSNames = []string{"shoot-b.example.com"}
	located := clientCertificate("")
	located.URIs = []*url.URL{spiffe}
	expired := clientCertificate("shoot-a")
	expired.NotAfter = time.Now().Add(-time.Minute)

	const right, wrong = "driver.example.com", "other.example.com"

	tests := map[string]struct {
		reason      string
		authority   *authority
		certificate x509.Certificate
		serverName  string
		err         string
	}{
		"common name":       {"it is allowed", ours, clientCertificate("shoot-a"), right, ""},
		"DNS name":          {"it is allowed", ours, named, right, ""},
		"URI":               {"it is allowed", ours, located, right, ""},
		"unknown name":      {"the authority may issue certificates to others", ours, clientCertificate("shoot-d"), right, "DriverUnavailable"},
		"no name":           {"it is nobody", ours, clientCertificate(""), right, "DriverUnavailable"},
		"server as client":  {"the certificate is for something else", ours, serverCertificate(), right, "DriverUnavailable"},
		"expired":           {"it was somebody", ours, expired, right, "DriverUnavailable"},
		"another authority": {"neither believes the other", theirs, clientCertificate("shoot-a"), right, "DriverUnavailable"},
		"another server":    {"the client does not believe the server", ours, clientCertificate("shoot-a"), wrong, "other.example.com"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			files := tc.authority.issue(t, t.TempDir(), tc.certificate)
			if tc.err == "" {
				require.NoError(t, ask(t, endpoint, files, tc.serverName, patience), tc.reason)

				return
			}

			require.ErrorContains(t, ask(t, endpoint, files, tc.serverName, refusal), tc.err, tc.reason)
		})
	}

	_, err = driverrpc.ServerCredentials(ours.issue(t, t.TempDir(), serverCertificate()), nil)
	require.ErrorContains(t, err, "no client is allowed")
}

// TestCertificatesRotate replaces all certificates, and the authority, under a running server and a running client.
func TestCertificatesRotate(t *testing.T) {
	t.Parallel()

	before, after := newAuthority(t), newAuthority(t)
	serverFolder, clientFolder := t.TempDir(), t.TempDir()
	endpoint := serveTLS(t, before.issue(t, serverFolder, serverCertificate()), "shoot-a")
	old := before.issue(t, t.TempDir(), clientCertificate("shoot-a"))
	files := before.issue(t, clientFolder, clientCertificate("shoot-a"))

	creds, err := driverrpc.ClientCredentials(files, "driver.example.com")
	require.NoError(t, err)

	call := func() error {
		client, err := driverrpc.NewClient(endpoint, creds)
		require.NoError(t, err)

		defer func() { _ = client.Close() }() // It was read from.

		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()

		_, err = client.ListMachines(ctx, &driver.ListMachinesRequest{})

		return err
	}
	require.NoError(t, call())

	// In the middle of a rotation key and certificate do not fit together.
	require.NoError(t, os.WriteFile(filepath.Join(serverFolder, "tls.key"), nil, 0o600))
	require.NoError(t, os.WriteFile(files.Certificate, nil, 0o600))
	require.NoError(t, call(), "what was read last is used on")

	after.issue(t, serverFolder, serverCertificate())
	after.issue(t, clientFolder, clientCertificate("shoot-a"))
	require.NoError(t, call())
	require.Error(t, ask(t, endpoint, old, "driver.example.com", refusal), "who has a certificate of the old authority is not served any more")

	require.NoError(t, os.Remove(files.Key))

	_, err = driverrpc.ClientCredentials(files, "")
	require.ErrorContains(t, err, "tls.key")
}
