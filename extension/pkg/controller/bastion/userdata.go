// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"
)

// The keys of the Secret. KubeVirt reads the first one; the extension keeps the host key in the second one.
const userDataKey, hostKeyKey = "userdata", "ssh_host_ed25519_key"

// parts are the user data with their parts in base64, which contains no boundary.
const parts = `Content-Type: multipart/mixed; boundary=bastion
MIME-Version: 1.0

--bastion
Content-Type: text/cloud-config
Content-Transfer-Encoding: base64

%s
--bastion
Content-Type: text/x-shellscript
Content-Transfer-Encoding: base64

%s
--bastion--
`

// newHostKey returns a private key for an SSH server.
func newHostKey() ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a host key: %w", err)
	}

	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("encode a host key: %w", err)
	}

	return pem.EncodeToMemory(block), nil
}

// userDataOf returns user data with gardenlet's script and a host key: the disk of a bastion is new at each start, and a host key that
// changes would teach users to accept any. Equal arguments give equal user data. Errors contain no argument.
func userDataOf(script, hostKey []byte) ([]byte, error) {
	signer, err := ssh.ParsePrivateKey(hostKey)
	if err != nil {
		return nil, fmt.Errorf("parse the host key: %w", err)
	}

	config, err := yaml.Marshal(map[string]any{"ssh_keys": map[string]string{
		"ed25519_private": string(hostKey),
		"ed25519_public":  string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(signer.PublicKey()))),
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the host key: %w", err)
	}

	encode := base64.StdEncoding.EncodeToString

	return fmt.Appendf(nil, parts, encode(append([]byte("#cloud-config\n"), config...)), encode(script)), nil
}
