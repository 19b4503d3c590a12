// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package certificates issues certificates for tests: those of the driver over gRPC, and client certificates in
// kubeconfigs. Only tests may use it: the certificates are valid for a short time.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// validity is longer than any test.
const validity = time.Hour

// Authority issues certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new authority.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "authority"},
		NotAfter:              time.Now().Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)

	certificate, err := x509.ParseCertificate(raw)
	require.NoError(t, err)

	return &Authority{certificate: certificate, key: key}
}

// Server returns the template of a server's certificate.
func Server(name string) x509.Certificate {
	return x509.Certificate{DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
}

// Client returns the template of a client's certificate.
func Client(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// Issue writes a new certificate, its key and the authority's certificate into a folder, with the
// names of the keys in a Kubernetes TLS Secret.
func (a *Authority) Issue(t *testing.T, folder string, template x509.Certificate) driverrpc.Files {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(validity)
	}

	raw, err := x509.CreateCertificate(rand.Reader, &template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)

	files := driverrpc.Files{
		Certificate: filepath.Join(folder, "tls.crt"),
		Key:         filepath.Join(folder, "tls.key"),
		Authorities: filepath.Join(folder, "ca.crt"),
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
