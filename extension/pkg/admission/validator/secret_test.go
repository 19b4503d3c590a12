// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// secretWith returns a Secret with the kubeconfig of a server.
func secretWith(server, token string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{"kubeconfig": fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "machines"}}],
		"clusters": [{"name": "a", "cluster": {"server": %q}}], "users": [{"name": "a", "user": {"token": %q}}]}`, server, token)}}
}

// TestSecretValidator_InternalServer refuses servers that a seed must not call for a user, unless the
// operator allows them.
func TestSecretValidator_InternalServer(t *testing.T) {
	t.Parallel()

	for server, want := range map[string]string{
		"https://api.example.com:6443": "", "https://10.1.2.3": "",
		"https://127.0.0.1:6443": "a loopback address", "https://[::ffff:127.0.0.1]": "a loopback address", "https://localhost": "local host", "https://0x7f.1": "unusual form",
		"https://169.254.169.254": "a link-local address", "https://0.0.0.0": "the unspecified address", "https://[::]:443": "the unspecified address",
		"https://kubernetes.default.svc": "the name of a service", "https://kubernetes.default.svc.cluster.local.": "the name of a service", "https://kubernetes": "a name without a domain",
	} {
		require.NoError(t, (&secretValidator{allowInternalServers: true}).Validate(t.Context(), secretWith(server, "b"), nil), server)

		err := (&secretValidator{}).Validate(t.Context(), secretWith(server, "b"), nil)
		if want == "" {
			require.NoError(t, err, server)

			continue
		}

		require.ErrorContains(t, err, "data[kubeconfig]: Invalid value: field server of the current context is refused", server)
		require.ErrorContains(t, err, want, server)
	}
}

// TestSecretValidator_StoredInternalServer accepts updates of a Secret that was accepted before, as long as
// its kubeconfig remains.
func TestSecretValidator_StoredInternalServer(t *testing.T) {
	t.Parallel()

	stored := secretWith("https://127.0.0.1", "b")
	labelled := stored.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	require.NoError(t, (&secretValidator{}).Validate(t.Context(), labelled, stored))
	require.Error(t, (&secretValidator{}).Validate(t.Context(), secretWith("https://127.0.0.1", "c"), stored))
}
