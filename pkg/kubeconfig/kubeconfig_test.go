// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

type object = map[string]any

func TestRESTConfig(t *testing.T) {
	t.Parallel()

	raw := hostile.KubeconfigWith(t, func(cluster, _, _ object) {
		cluster["certificate-authority-data"] = []byte("ca")
		cluster["tls-server-name"] = "provider"
	})

	got, namespace, err := kubeconfig.RESTConfig(raw)
	require.NoError(t, err)
	require.Equal(t, "machines", namespace)
	require.Equal(t, "https://127.0.0.1:6443", got.Host)
	require.Equal(t, hostile.Token, got.BearerToken)
	require.Equal(t, "provider", got.ServerName)
	require.Equal(t, []byte("ca"), got.CAData)
}

func TestRESTConfigWithoutNamespace(t *testing.T) {
	t.Parallel()

	_, namespace, err := kubeconfig.RESTConfig(hostile.KubeconfigWith(t, func(_, _, context object) { delete(context, "namespace") }))
	require.NoError(t, err)
	require.Equal(t, "default", namespace)
}

func TestRESTConfigRefuses(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(cluster, user, context object)
		names  string
	}{
		"Exec": {"it would run a program beside other shoots' secrets", func(_, u, _ object) {
			u["exec"] = object{"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}
		}, "exec"},
		"AuthProvider": {"so would this", func(_, u, _ object) { u["auth-provider"] = object{"name": "gcp"} }, "auth-provider"},
		"TwoLogins":    {"only one of them would be used", func(_, u, _ object) { u["username"] = "me" }, "username"},
		"TokenNewline": {"no HTTP header can carry it", func(_, u, _ object) { u["token"] = hostile.Token + "\n" }, "token"},
		"TokenFile":    {"it would read a file of the seed", func(_, u, _ object) { u["tokenFile"] = "/etc/passwd" }, "tokenFile"},
		"CertFile":     {"as above", func(_, u, _ object) { u["client-certificate"] = "/etc/passwd" }, "client-certificate"},
		"KeyFile":      {"as above", func(_, u, _ object) { u["client-key"] = "/etc/passwd" }, "client-key"},
		"CAFile":       {"as above", func(c, _, _ object) { c["certificate-authority"] = "/etc/passwd" }, "certificate-authority"},
		"Impersonate":  {"the identity is the user's own", func(_, u, _ object) { u["as"] = "admin" }, "field as of"},
		"NoLogin":      {"requests would be anonymous", func(_, u, _ object) { delete(u, "token") }, "no credentials"},
		"ServerName":   {"it ends up in logs", func(c, _, _ object) { c["tls-server-name"] = "provider\x1b[2J" }, "field tls-server-name"},
		"Proxy":        {"it would lead the driver elsewhere", func(c, _, _ object) { c["proxy-url"] = "http://127.0.0.1" }, "proxy-url"},
		"Insecure":     {"the server must be known", func(c, _, _ object) { c["insecure-skip-tls-verify"] = true }, "insecure-skip-tls-verify"},
		"HTTP":         {"credentials must not travel in clear", func(c, _, _ object) { c["server"] = "http://127.0.0.1" }, "server"},
		"UserInfo":     {"credentials in a URL end up in logs", func(c, _, _ object) { c["server"] = "https://me:" + hostile.Token + "@127.0.0.1" }, "server"},
		"NoServer":     {"there must be a server", func(c, _, _ object) { delete(c, "server") }, "server"},
		"NoCluster":    {"the context must lead somewhere", func(_, _, x object) { x["cluster"] = "other" }, "clusters"},
		"NoUser":       {"the context must lead somewhere", func(_, _, x object) { x["user"] = "other" }, "users"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, _, err := kubeconfig.RESTConfig(hostile.KubeconfigWith(t, tc.change))
			require.ErrorContains(t, err, tc.names, tc.reason)
			require.NotContains(t, err.Error(), hostile.Token, "errors reach the shoot's status")
		})
	}
}

func TestRESTConfig_ErrorsDoNotQuote(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{
		"", hostile.Token, "{" + hostile.Token, "users: " + hostile.Token, `{"apiVersion":"v1","kind":"` + hostile.Token + `"}`,
		string(hostile.KubeconfigWith(t, func(_, user, _ object) { user["client-key-data"] = hostile.Token })),
		string(hostile.KubeconfigWith(t, func(_, user, _ object) {
			user["client-key-data"] = []byte(hostile.Token)
			user["client-certificate-data"] = []byte(hostile.Token)
		})),
	} {
		_, err := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1}).For([]byte(raw))
		require.Error(t, err, strings.ReplaceAll(raw, hostile.Token, "TOKEN"))
		require.NotContains(t, err.Error(), hostile.Token)
	}
}

func TestRESTConfig_CachedByContent(t *testing.T) {
	t.Parallel()

	cache := providerapi.NewCache(providerapi.Options{QPS: 1, Burst: 1})
	raw := hostile.KubeconfigWith(t, func(_, _, _ object) {})

	first, err := cache.For(raw)
	require.NoError(t, err)
	again, err := cache.For(append([]byte(nil), raw...))
	require.NoError(t, err)
	rotated, err := cache.For(hostile.KubeconfigWith(t, func(_, user, _ object) { user["token"] = "new" }))
	require.NoError(t, err)

	require.Same(t, first, again)
	require.NotSame(t, first, rotated)
}

// FuzzRESTConfig looks for a kubeconfig that is accepted with a refused field, or
// whose secrets an error repeats.
func FuzzRESTConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/hostile/*.yaml")
	require.NoError(f, err)

	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(raw)
	}

	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, namespace, err := kubeconfig.RESTConfig(raw)
		if err != nil {
			require.NotContains(t, err.Error(), canary)

			return
		}

		server, err := url.Parse(got.Host)
		require.NoError(t, err)
		require.Equal(t, "https", server.Scheme)
		require.NotEmpty(t, server.Hostname())
		require.Nil(t, server.User)
		require.Empty(t, server.RawQuery+server.Fragment)
		require.Empty(t, validation.IsDNS1123Label(namespace))
		require.NotContains(t, got.BearerToken, "\n")
		require.False(t, strings.ContainsFunc(got.ServerName, unicode.IsControl), "%q", got.ServerName)
		require.True(t, got.BearerToken != "" || got.Username != "" || len(got.CertData) > 0, "no request is anonymous")

		// Only these fields are used, whatever else the kubeconfig contains.
		require.Equal(t, &rest.Config{
			Host:            got.Host,
			BearerToken:     got.BearerToken,
			Username:        got.Username,
			Password:        got.Password,
			TLSClientConfig: rest.TLSClientConfig{ServerName: got.ServerName, CAData: got.CAData, CertData: got.CertData, KeyData: got.KeyData},
		}, got)
	})
}

// TestPublicCAs requires the programs to contain the certificates of public CAs, since the container
// image has none. They can be set only once.
func TestPublicCAs(t *testing.T) {
	t.Parallel()

	require.PanicsWithValue(t, "SetFallbackRoots has already been called", func() { x509.SetFallbackRoots(x509.NewCertPool()) })
}
