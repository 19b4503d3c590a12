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

// Files name the PEM files of one end of a connection. They may be replaced at any time: each connection uses them as they are then.
type Files struct {
	// Certificate is that of this end, with the intermediate ones that lead to its authority.
	Certificate string
	// Key is the private key of Certificate.
	Key string
	// Authorities are the certificates of those whom the other end may have its certificate from. The system's are not trusted.
	Authorities string
}

// ServerCredentials require a certificate of every client, in which one of the names stands: as the subject's common name, or as a DNS
// name or URI among the alternative names.
func ServerCredentials(files Files, clients []string) (credentials.TransportCredentials, error) {
	if len(clients) == 0 {
		return nil, errors.New("no client is allowed: name at least one")
	}

	if slices.Contains(clients, "") {
		return nil, errors.New("the empty name allows no client: remove it")
	}

	return newCredentials(files, func(m *material) *tls.Config {
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{m.certificate},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    m.authorities,
			VerifyConnection: func(state tls.ConnectionState) error {
				return allow(clients, state.PeerCertificates[0])
			},
		}
	})
}

// ClientCredentials show a certificate to the server, and require the server's to be for serverName; empty: for the endpoint's host.
func ClientCredentials(files Files, serverName string) (credentials.TransportCredentials, error) {
	return newCredentials(files, func(m *material) *tls.Config {
		return &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{m.certificate},
			RootCAs:      m.authorities,
			ServerName:   serverName,
		}
	})
}

func allow(clients []string, leaf *x509.Certificate) error {
	names := namesIn(leaf)
	for _, name := range names {
		if slices.Contains(clients, name) {
			return nil
		}
	}

	return fmt.Errorf("no client with the names %q is allowed", names)
}

// namesIn returns whom a certificate is for. Most that have alternative names have no common name, which is nobody's.
func namesIn(leaf *x509.Certificate) []string {
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}

	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// material is what the files hold.
type material struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// rotating are credentials that read their files for every handshake. There are few: connections last.
type rotating struct {
	files  Files
	config func(*material) *tls.Config

	mu   sync.Mutex
	last *material
}

var _ credentials.TransportCredentials = (*rotating)(nil)

func newCredentials(files Files, config func(*material) *tls.Config) (credentials.TransportCredentials, error) {
	made := &rotating{files: files, config: config}

	first, err := files.read()
	if err != nil {
		return nil, err
	}

	made.last = first

	return made, nil
}

// current returns the credentials as they are now. While the files are being replaced, they may not fit together.
func (r *rotating) current() credentials.TransportCredentials {
	r.mu.Lock()
	defer r.mu.Unlock()

	read, err := r.files.read()
	if err != nil {
		klog.ErrorS(err, "The certificates of before are used on")
	} else {
		r.last = read
	}

	return credentials.NewTLS(r.config(r.last))
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *rotating) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return r.current().ClientHandshake(ctx, authority, raw)
}

// ServerHandshake implements credentials.TransportCredentials.
func (r *rotating) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := r.current().ServerHandshake(raw)
	if err != nil {
		klog.V(2).InfoS("Refused a client", "address", raw.RemoteAddr(), "err", err)
	}

	return secured, info, err
}

// Info implements credentials.TransportCredentials.
func (r *rotating) Info() credentials.ProtocolInfo {
	return r.current().Info()
}

// Clone implements credentials.TransportCredentials. Nothing of them changes but what the files say.
func (r *rotating) Clone() credentials.TransportCredentials {
	return r
}

// OverrideServerName implements credentials.TransportCredentials.
func (r *rotating) OverrideServerName(string) error {
	return errors.New("the server's name is set when the credentials are made")
}

// read reads the files. Its errors name them, and hold nothing of the key.
func (f Files) read() (*material, error) {
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
		return nil, fmt.Errorf("%s holds no certificates", f.Authorities)
	}

	return &material{certificate: certificate, authorities: pool}, nil
}
