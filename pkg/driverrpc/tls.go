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

// Files names the PEM files of one end of a connection. They may be replaced at any time: each
// connection uses their contents at that time.
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

// ServerCredentials requires a certificate of every client that contains one of the names: as the
// subject's common name, or as a DNS name or URI among the alternative names.
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

// ClientCredentials presents a certificate to the server, and requires the server's certificate to
// be valid for serverName, or for the endpoint's host if serverName is empty.
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

// namesIn returns the names in a certificate. Most certificates with alternative names have no
// common name; an empty name identifies no client.
func namesIn(leaf *x509.Certificate) []string {
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}

	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// material is the content of the files.
type material struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// rotating are credentials that read their files for every handshake. Handshakes are
// rare, because connections last.
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

// current returns the credentials in the current files. It keeps the previous ones if the files
// cannot be used, since they may not match while they are being replaced.
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

// Clone implements credentials.TransportCredentials. Only the contents of the files change.
func (r *rotating) Clone() credentials.TransportCredentials {
	return r
}

// OverrideServerName implements credentials.TransportCredentials.
func (r *rotating) OverrideServerName(string) error {
	return errors.New("the server's name is set when the credentials are made")
}

// read reads the files. Its errors contain their names, but nothing of the key.
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
