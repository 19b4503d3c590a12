// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
	"k8s.io/klog/v2"
)

// Files names the PEM files of one end of a connection. They may be replaced at any time: each new
// connection reads them again.
type Files struct {
	// Certificate is the certificate of this end, with the intermediate
	// certificates up to its authority.
	Certificate string
	// Key is the private key of Certificate.
	Key string
	// Authorities are the certificates of the authorities that may issue the other end's
	// certificate. The system's authorities are not trusted.
	Authorities string
}

// ServerCredentials requires every client to present a certificate with one of the names: as the
// subject's common name, or as a DNS name or URI among the alternative names.
func ServerCredentials(files Files, clients []string) (credentials.TransportCredentials, error) {
	if len(clients) == 0 {
		return nil, errors.New("no client is allowed: name at least one")
	}

	if slices.Contains(clients, "") {
		return nil, errors.New("the empty name allows no client: remove it")
	}

	return newCredentials(files, func(config *tls.Config) {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return requireAllowed(clients, state.PeerCertificates[0])
		}
	})
}

// ClientCredentials presents a certificate to the server, and requires the server's certificate to
// be valid for serverName, or for the endpoint's host if serverName is empty.
func ClientCredentials(files Files, serverName string) (credentials.TransportCredentials, error) {
	return newCredentials(files, func(config *tls.Config) { config.ServerName = serverName })
}

func requireAllowed(clients []string, leaf *x509.Certificate) error {
	names := namesIn(leaf)
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(clients, name) }) {
		return fmt.Errorf("no client with the names %q is allowed", names)
	}

	return nil
}

// namesIn returns the names in a certificate. Most certificates with alternative names have no
// common name; an empty name identifies no client.
func namesIn(leaf *x509.Certificate) []string {
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}

	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// reloading are credentials that read their files for every handshake. Handshakes are rare, because
// connections are long-lived.
type reloading struct {
	// TransportCredentials are the credentials at startup. gRPC uses only their Info.
	credentials.TransportCredentials

	files     Files
	configure func(*tls.Config)

	mu   sync.Mutex
	last credentials.TransportCredentials
}

func newCredentials(files Files, configure func(*tls.Config)) (credentials.TransportCredentials, error) {
	first, err := files.read(configure)
	if err != nil {
		return nil, err
	}

	return &reloading{TransportCredentials: first, files: files, configure: configure, last: first}, nil
}

// current returns the credentials in the current files. It returns the previous ones if the files
// cannot be used: a certificate and its key may not match while they are being replaced.
func (r *reloading) current() credentials.TransportCredentials {
	r.mu.Lock()
	defer r.mu.Unlock()

	current, err := r.files.read(r.configure)
	if err != nil {
		klog.ErrorS(err, "Cannot reload certificates; keeping the previous ones")

		return r.last
	}

	r.last = current

	return current
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *reloading) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.current().ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials.
func (r *reloading) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := r.current().ServerHandshake(raw)
	if err != nil {
		klog.V(2).InfoS("Rejected the connection of a client", "address", raw.RemoteAddr(), "err", err)
	}

	return secured, info, err
}

// Clone implements credentials.TransportCredentials. A clone reloads the same files.
func (r *reloading) Clone() credentials.TransportCredentials {
	return r
}

// read returns the credentials in the files. Its errors contain the names of the files, but no part
// of the key.
func (f Files) read(configure func(*tls.Config)) (credentials.TransportCredentials, error) {
	certificate, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", f.Certificate, f.Key, err)
	}

	authorities, err := os.ReadFile(f.Authorities)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of authorities: %w", err)
	}

	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s contains no certificates", f.Authorities)
	}

	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{certificate},
		ClientCAs:    pool, // A server uses only ClientCAs, a client only RootCAs.
		RootCAs:      pool,
	}
	configure(config)

	return credentials.NewTLS(config), nil
}
