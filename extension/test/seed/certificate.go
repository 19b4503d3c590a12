// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/gardener/pkg/utils/secrets"
)

// writeServingCertificate writes the certificate and key of a server into a folder, as tls.crt and
// tls.key. It returns the certificate of the CA.
func writeServingCertificate(folder, name string, dnsNames ...string) (ca []byte, _ error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}

	authority, err := (&secrets.CertificateSecretConfig{Name: "ca", CommonName: "ca-" + name, CertType: secrets.CACert}).GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("generate a CA: %w", err)
	}

	serving, err := (&secrets.CertificateSecretConfig{
		Name:       name,
		CommonName: name,
		CertType:   secrets.ServerCert,
		DNSNames:   dnsNames,
		SigningCA:  authority,
	}).GenerateCertificate()
	if err != nil {
		return nil, fmt.Errorf("generate a serving certificate: %w", err)
	}

	for file, data := range map[string][]byte{"tls.crt": serving.CertificatePEM, "tls.key": serving.PrivateKeyPEM} {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			return nil, err
		}
	}

	return authority.CertificatePEM, nil
}
