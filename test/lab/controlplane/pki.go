// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs certificates. Each cluster has its own, so that neither cluster trusts the other.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

const validity = 30 * 24 * time.Hour

func newAuthority(name string, key crypto.Signer) (*authority, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse authority %s: %w", name, err)
	}
	return &authority{certificate: certificate, key: key, pem: encodeCertificate(der)}, nil
}

// issue returns a certificate and its key in PEM, for servers (with DNS names and IP addresses) and
// clients alike.
func (a *authority) issue(commonName string, names ...string) (certificate, key []byte, err error) {
	own, err := newECKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) //nolint:mnd // the usual size
	if err != nil {
		return nil, nil, fmt.Errorf("choose serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate %s: %w", commonName, err)
	}
	keyPEM, err := encodeKey(own)
	return encodeCertificate(der), keyPEM, err
}

func newECKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

func newRSAKey() (*rsa.PrivateKey, error) {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("generate RSA key: %w", err)
	}
	return key, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// encodeRSAKey uses PKCS#1, the only format that CDI reads.
func encodeRSAKey(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func encodeRSAPublicKey(key *rsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encode public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// pki is the folder with the certificates and keys of one cluster.
type pki struct {
	dir        string
	ca         *authority
	frontProxy *authority
}

// newPKI creates the keys needed by every API server: serving certificate, front
// proxy, service account key. The serving certificate is also valid for the given names.
func newPKI(dir, cluster string, serverNames ...string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder for certificates: %w", err)
	}
	p := &pki{dir: dir}
	for _, a := range []struct {
		name string
		into **authority
	}{{"ca", &p.ca}, {"front-proxy-ca", &p.frontProxy}} {
		key, err := newECKey()
		if err != nil {
			return nil, err
		}
		if *a.into, err = newAuthority(cluster+"-"+a.name, key); err != nil {
			return nil, err
		}
		if err := p.write(a.name+".crt", (*a.into).pem); err != nil {
			return nil, err
		}
	}
	return p, p.writeLeaves(serverNames)
}

func (p *pki) writeLeaves(serverNames []string) error {
	names := append([]string{loopback, "localhost", "kubernetes.default.svc", "virt-api.kubevirt.svc", "cdi-api.cdi.svc"}, serverNames...)
	if err := p.issueInto("server", p.ca, "lab", names...); err != nil {
		return err
	}
	if err := p.issueInto("front-proxy-client", p.frontProxy, frontProxyName); err != nil {
		return err
	}
	key, err := newECKey()
	if err != nil {
		return err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return err
	}
	return p.write("service-account.key", encoded)
}

const frontProxyName = "front-proxy-client"

func (p *pki) issueInto(file string, a *authority, commonName string, names ...string) error {
	certificate, key, err := a.issue(commonName, names...)
	if err != nil {
		return err
	}
	if err := p.write(file+".crt", certificate); err != nil {
		return err
	}
	return p.write(file+".key", key)
}

// writeSigningKey writes the CA's key, for kube-controller-manager. It is otherwise only in memory.
func (p *pki) writeSigningKey() error {
	key, ok := p.ca.key.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("write the CA's key: unexpected type %T", p.ca.key)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return err
	}
	return p.write("ca.key", encoded)
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(name string, data []byte) error {
	if err := os.WriteFile(p.file(name), data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
