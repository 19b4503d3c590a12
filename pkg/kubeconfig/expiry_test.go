// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
)

func tokenWith(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString

	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("signature"))
}

func TestExpiries(t *testing.T) {
	t.Parallel()

	end := time.Unix(2_000_000_000, 0)
	cert, key, err := certificates.SelfSigned(end)
	require.NoError(t, err)
	encode := base64.StdEncoding.EncodeToString

	tests := map[string]struct {
		reason string
		user   string
		want   []kubeconfig.Expiry
	}{
		"Token": {
			reason: "both claims are set",
			user:   "token: " + tokenWith(`{"iat":1900000000,"exp":2000000000}`),
			want:   []kubeconfig.Expiry{{Kind: "token", Begin: time.Unix(1_900_000_000, 0), End: end}},
		},
		"TokenWithoutBegin": {
			reason: "the claim iat is optional",
			user:   "token: " + tokenWith(`{"exp":2000000000}`),
			want:   []kubeconfig.Expiry{{Kind: "token", End: end}},
		},
		"Endless": {reason: "some tokens do not expire", user: "token: " + tokenWith(`{"iat":1900000000}`)},
		"Opaque":  {reason: "some tokens have no claims", user: "token: abc"},
		"Certificate": {
			reason: "certificates expire, too",
			user:   "client-certificate-data: " + encode(cert) + ", client-key-data: " + encode(key),
			want:   []kubeconfig.Expiry{{Kind: "client-certificate", End: end}},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := kubeconfig.Expiries(fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://example.com"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {%s}}]
`, tc.user))
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}

	_, err = kubeconfig.Expiries([]byte("{}"))
	require.Error(t, err)
}

func TestHasOpaqueToken(t *testing.T) {
	t.Parallel()

	const config = `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"https://example.com"}}],"users":[{"name":"u","user":{"token":"TOKEN"}}]}`

	token := func(text string) []byte { return []byte(strings.Replace(config, "TOKEN", text, 1)) }

	require.True(t, kubeconfig.HasOpaqueToken(token("kubeconfig-user-abcdefghij:0123456789abcdef")))
	require.False(t, kubeconfig.HasOpaqueToken(token("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln")), "a token without exp does not expire")
	require.False(t, kubeconfig.HasOpaqueToken([]byte("{")))
}

func TestTrust(t *testing.T) {
	t.Parallel()

	for claims, want := range map[string][]string{
		`{"iss":"https://issuer.example.com","aud":"a"}`:         {"a"},
		`{"iss":"https://issuer.example.com","aud":["a","b",1]}`: {"a", "b"},
		`{"iss":"https://issuer.example.com"}`:                   nil,
	} {
		issuer, audiences := kubeconfig.Trust(tokenWith(claims))
		require.Equal(t, "https://issuer.example.com", issuer, claims)
		require.Equal(t, want, audiences, claims)
	}

	issuer, audiences := kubeconfig.Trust("opaque")
	require.Empty(t, issuer)
	require.Empty(t, audiences)
}

func TestSubject(t *testing.T) {
	t.Parallel()

	require.Equal(t, "a:b", kubeconfig.Subject(tokenWith(`{"sub":"a:b"}`)))
	require.Empty(t, kubeconfig.Subject(tokenWith(`{"sub":1}`)))
	require.Empty(t, kubeconfig.Subject("opaque"))
}
