// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns a kubeconfig with a token for a TLS server, and the namespace "machines".
func Kubeconfig(t *testing.T, server *httptest.Server) []byte {
	t.Helper()

	return KubeconfigOf(t, &clientcmdapi.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	})
}

// KubeconfigOf is Kubeconfig for a server of which only the address is used.
func KubeconfigOf(t *testing.T, cluster *clientcmdapi.Cluster) []byte {
	t.Helper()

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "machines"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": cluster},
	})
	require.NoError(t, err)

	return raw
}

// Token is the token in the kubeconfigs of KubeconfigWith.
const Token = "s3cr3t-t0k3n"

// KubeconfigWith returns a kubeconfig with a valid cluster and user, changed by the given function.
func KubeconfigWith(t testing.TB, change func(cluster, user, context map[string]any)) []byte {
	t.Helper()

	cluster := map[string]any{"server": "https://127.0.0.1:6443"}
	user := map[string]any{"token": Token}
	context := map[string]any{"cluster": "c", "user": "u", "namespace": "machines"}
	change(cluster, user, context)

	raw, err := json.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": "x",
		"clusters":        []map[string]any{{"name": "c", "cluster": cluster}},
		"users":           []map[string]any{{"name": "u", "user": user}},
		"contexts":        []map[string]any{{"name": "x", "context": context}},
	})
	require.NoError(t, err)

	return raw
}
