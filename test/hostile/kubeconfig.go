package hostile

import (
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
