// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"
)

// TestUserDataOf reads the user data as cloud-init does.
func TestUserDataOf(t *testing.T) {
	t.Parallel()

	const script = "#!/bin/bash\necho 'ssh-ed25519 AAAA José'\n---\n"

	hostKey, err := newHostKey()
	require.NoError(t, err)

	userData, err := userDataOf([]byte(script), hostKey)
	require.NoError(t, err)

	message, err := mail.ReadMessage(bytes.NewReader(userData))
	require.NoError(t, err)
	require.Equal(t, "1.0", message.Header.Get("MIME-Version"), "cloud-init knows multipart user data by it")

	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	require.NoError(t, err)

	parts := multipart.NewReader(message.Body, parameters["boundary"])
	config, found := strings.CutPrefix(nextPart(t, parts, "text/cloud-config"), "#cloud-config\n")
	require.True(t, found)

	var parsed struct {
		Keys map[string]string `json:"ssh_keys"`
	}

	require.NoError(t, yaml.UnmarshalStrict([]byte(config), &parsed))
	require.Equal(t, string(hostKey), parsed.Keys["ed25519_private"])

	signer, err := ssh.ParsePrivateKey(hostKey)
	require.NoError(t, err)

	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(parsed.Keys["ed25519_public"]))
	require.NoError(t, err)
	require.Equal(t, signer.PublicKey().Marshal(), public.Marshal())

	require.Equal(t, script, nextPart(t, parts, "text/x-shellscript"))

	_, err = parts.NextPart()
	require.ErrorIs(t, err, io.EOF)

	_, err = userDataOf([]byte(script), []byte("secret"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func nextPart(t *testing.T, parts *multipart.Reader, contentType string) string {
	t.Helper()

	part, err := parts.NextPart()
	require.NoError(t, err)
	require.Equal(t, contentType, part.Header.Get("Content-Type"))

	content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
	require.NoError(t, err)

	return string(content)
}
