// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package mount_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
)

const written = `{"apiVersion": "v1", "kind": "Config", "current-context": "provider",
	"contexts": [{"name": "provider", "context": {"cluster": "provider", "user": "provider", "namespace": "machines"}}],
	"clusters": [{"name": "provider", "cluster": {"server": "https://provider.example.com:6443"}}],
	"users": [{"name": "provider", "user": {"tokenFile": "/var/run/secrets/provider/token"}}]}`

// TestRESTConfig reads the token's file, and refuses every other file and program.
func TestRESTConfig(t *testing.T) {
	t.Parallel()

	const token = "sensitive-token"

	config, err := mount.RESTConfig([]byte(written), []byte(token))
	require.NoError(t, err)
	require.Equal(t, "https://provider.example.com:6443", config.Host)
	require.Equal(t, token, config.BearerToken)
	require.Empty(t, config.BearerTokenFile)

	user := `"tokenFile": "/var/run/secrets/provider/token"`
	require.Contains(t, written, user)

	for name, tc := range map[string]struct{ kubeconfig, says string }{
		"Password":  {strings.Replace(written, user, `"username": "a", "password": "b"`, 1), ""},
		"OtherFile": {strings.Replace(written, user, `"tokenFile": "/etc/shadow"`, 1), "tokenFile"},
		"Program":   {strings.Replace(written, user, `"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never"}`, 1), "exec"},
		"PlainHTTP": {strings.Replace(written, "https://", "http://", 1), "server"},
		"NoYAML":    {"{", "not a kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := mount.RESTConfig([]byte(tc.kubeconfig), []byte(token))
			if tc.says == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), token)
		})
	}

	_, err = mount.RESTConfig([]byte(written), nil)
	require.ErrorContains(t, err, "no credentials", "kubelet has not written the token yet")
}
