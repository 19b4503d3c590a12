// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestUserDataArrivesUntouched creates machines with user data of every format, and with SSH keys,
// which other drivers insert into the user data.
func TestUserDataArrivesUntouched(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})

	var zipped bytes.Buffer

	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte("#cloud-config\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())

	formats := map[string][]byte{
		"cloud-config":         []byte("#cloud-config\nssh_authorized_keys: [a]\n"),
		"cloud-config-archive": []byte("#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    a: b\n"),
		"MIME multipart":       []byte("Content-Type: multipart/mixed; boundary=\"x\"\r\nMIME-Version: 1.0\r\n\r\n--x\r\n\r\n--x--\r\n"),
		"shell":                []byte("#!/bin/bash\necho \"$1\"\t\x00\xff"),
		"Ignition":             []byte(`{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["a"]}]}}`),
		"gzip":                 zipped.Bytes(),
		"without a line end":   []byte("#cloud-config"),
		"64 KiB":               harness.Incompressible(64 << 10),
		"700 KiB":              harness.Incompressible(700 << 10),
	}

	for name, userData := range formats {
		t.Log(name)
		requireUntouched(t, s, d, userData)
	}

	s.RequireNothingLeft(t)
}

// requireUntouched creates a machine, checks its Secrets, and deletes it.
func requireUntouched(t *testing.T, s *harness.Shoot, d driver.Driver, userData []byte) {
	t.Helper()

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	m.Class.ProviderSpec.Raw = []byte(harness.MustReplace(string(m.Class.ProviderSpec.Raw), `"cpu":`, `"sshKeys":["ssh-ed25519 AAAA one"],"cpu":`))
	m.Secret.Data["userData"] = userData

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	volumes := s.VM(t, m.Name()).Spec.Template.Spec.Volumes
	source := volumes[len(volumes)-1].CloudInitNoCloud
	require.NotNil(t, source)

	secret, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), source.UserDataSecretRef.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, bytes.Equal(userData, secret.Data["userdata"]), "byte for byte")

	credentials := s.VM(t, m.Name()).Spec.Template.Spec.AccessCredentials
	require.Len(t, credentials, 1)

	keys, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Get(
		t.Context(), credentials[0].SSHPublicKey.Source.Secret.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"key0": []byte("ssh-ed25519 AAAA one")}, keys.Data)

	require.NoError(t, m.Remove(t.Context(), d))
}
