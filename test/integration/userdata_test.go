package integration

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUserDataArrivesUntouched creates machines with user data of every format, and with SSH keys,
// which other drivers insert into the user data.
func TestUserDataArrivesUntouched(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})

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
		"64 KiB":               incompressible(64 << 10),
		"700 KiB":              incompressible(700 << 10),
	}

	for name, userData := range formats {
		t.Log(name)
		requireUntouched(t, s, d, userData)
	}

	s.requireNothingLeft(t)
}

// requireUntouched creates a machine, checks its Secrets, and deletes it.
func requireUntouched(t *testing.T, s *shoot, d driver.Driver, userData []byte) {
	t.Helper()

	m := s.newMachine("zone-a", importedRoot)
	m.class.ProviderSpec.Raw = []byte(replace(string(m.class.ProviderSpec.Raw), `"cpu":`, `"sshKeys":["ssh-ed25519 AAAA one"],"cpu":`))
	m.secret.Data["userData"] = userData

	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	volumes := s.vm(t, m.name()).Spec.Template.Spec.Volumes
	source := volumes[len(volumes)-1].CloudInitNoCloud
	require.NotNil(t, source)

	secret, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), source.UserDataSecretRef.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, bytes.Equal(userData, secret.Data["userdata"]), "byte for byte")

	credentials := s.vm(t, m.name()).Spec.Template.Spec.AccessCredentials
	require.Len(t, credentials, 1)

	keys, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(
		t.Context(), credentials[0].SSHPublicKey.Source.Secret.SecretName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"key0": []byte("ssh-ed25519 AAAA one")}, keys.Data)

	require.NoError(t, m.remove(t.Context(), d))
}

// incompressible returns deterministic bytes that look random.
func incompressible(size int) []byte {
	var data []byte

	sum := sha256.Sum256([]byte("user data"))
	for len(data) < size {
		data = append(data, sum[:]...)
		sum = sha256.Sum256(sum[:])
	}

	return data[:size]
}
