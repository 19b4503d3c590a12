// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
)

// credentials are part of every shoot's kubeconfig in addition to its token: a client certificate,
// which the provider cluster does not know and ignores, and its key.
var credentials = sync.OnceValues(newCredentials)

type clientCertificate struct {
	certificate, key []byte
	number           []byte // the key itself
}

func newCredentials() (*clientCertificate, error) {
	certificate, key, err := certificates.SelfSigned(time.Now().Add(time.Hour))
	if err != nil {
		return nil, err
	}

	block, _ := pem.Decode(key)

	private, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}

	number, err := private.Bytes()

	return &clientCertificate{certificate: certificate, key: key, number: number}, err
}

// tokens are the prefixes of service account tokens. The tokens of a cluster share a prefix, which
// contains the name of its key.
var tokens sync.Map

// withCanaries adds the client certificate to a kubeconfig, and records its token.
func withCanaries(kubeconfig []byte) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the shoot's kubeconfig: %w", err)
	}

	own, err := credentials()
	if err != nil {
		return nil, fmt.Errorf("make a client certificate: %w", err)
	}

	for _, user := range config.AuthInfos {
		user.ClientCertificateData = own.certificate
		user.ClientKeyData = own.key
		header, _, _ := strings.Cut(user.Token, ".")
		tokens.Store(header, true)
	}

	return clientcmd.Write(*config)
}

// usedSecrets returns the secrets of this process, for the search of the suite.
func usedSecrets() ([]suite.Secret, error) {
	own, err := credentials()
	if err != nil {
		return nil, fmt.Errorf("make a client certificate: %w", err)
	}

	lines := bytes.Split(own.key, []byte("\n"))
	used := []suite.Secret{{Name: "client key", Text: lines[1]}, {Name: "number of the client key", Text: own.number}}

	tokens.Range(func(header, _ any) bool {
		used = append(used, suite.Secret{Name: "token", Text: fmt.Append(nil, header)})

		return true
	})

	return used, nil
}
