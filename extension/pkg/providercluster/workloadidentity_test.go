// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// identityOf returns the Secret of a WorkloadIdentity for a server that does not accept its token.
func identityOf(t *testing.T, token string) *corev1.Secret {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "reason": "Unauthorized", "code": 401, "message": "Unauthorized"}`))
	}))
	t.Cleanup(server.Close)

	kubeconfig, err := json.Marshal(&clientcmdapi.Config{
		CurrentContext: "a",
		Contexts:       []clientcmdapi.NamedContext{{Name: "a", Context: clientcmdapi.Context{Cluster: "a", AuthInfo: "a", Namespace: "machines"}}},
		AuthInfos:      []clientcmdapi.NamedAuthInfo{{Name: "a", AuthInfo: clientcmdapi.AuthInfo{Token: token}}},
		Clusters: []clientcmdapi.NamedCluster{{Name: "a", Cluster: clientcmdapi.Cluster{
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}}},
	})
	require.NoError(t, err)

	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "seed", Name: "cloudprovider", Labels: map[string]string{
			"security.gardener.cloud/purpose":                   "workload-identity-token-requestor",
			"workloadidentity.security.gardener.cloud/provider": "kubevirt",
		}},
		Data: map[string][]byte{"kubeconfig": kubeconfig, "token": []byte(token)},
	}
}

// connectWith returns the error of a request with the credentials of a Secret.
func connectWith(t *testing.T, secret *corev1.Secret) error {
	t.Helper()

	seed := fake.NewClientBuilder().WithObjects(secret).Build()

	cluster, err := NewClients(transport.AnyServer, 1).New(t.Context(), seed, corev1.SecretReference{Namespace: secret.Namespace, Name: secret.Name})
	if err != nil {
		return err
	}

	return getNode(t, cluster)
}

// TestClients_DistrustedWorkloadIdentity says what a provider cluster has to trust, without the token.
func TestClients_DistrustedWorkloadIdentity(t *testing.T) {
	t.Parallel()

	long := strings.Repeat("x", 10_000)

	for name, tc := range map[string]struct {
		reason, claims string
		want           []string
	}{
		"Audience": {
			reason: "the API server accepts another audience",
			claims: `{"iss": "https://issuer.example.com", "aud": ["other"], "exp": 4000000000}`,
			want:   []string{`of the issuer "https://issuer.example.com" for the audiences ["other"]; let the AuthenticationConfiguration of its API server trust`},
		},
		"Expired": {
			reason: "gardenlet did not renew it",
			claims: `{"iss": "https://issuer.example.com", "aud": "a", "exp": 1000000000}`,
			want:   []string{"and expired at 2001-09-09T01:46:40Z; check the log of gardenlet"},
		},
		"Long": {
			reason: "the error becomes part of the Shoot's status",
			claims: `{"iss": "` + long + `", "aud": ["a", "b", "c", "d", "e", "f", "` + long + `"]}`,
			want:   []string{`["a" "b" "c" "d" "e"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			encode := base64.RawURLEncoding.EncodeToString
			token := encode([]byte("{}")) + "." + encode([]byte(tc.claims)) + "." + encode([]byte("signature"))

			err := Explain(connectWith(t, identityOf(t, token)))
			require.True(t, apierrors.IsUnauthorized(err))
			require.ErrorContains(t, err, "provider cluster: it does not accept the token of the WorkloadIdentity, which is ")

			for _, want := range tc.want {
				require.ErrorContains(t, err, want, tc.reason)
			}

			require.NotContains(t, err.Error(), token)
			require.Less(t, len(err.Error()), 1<<10)
		})
	}

	static := identityOf(t, "static")
	static.Labels = nil
	require.ErrorContains(t, Explain(connectWith(t, static)), "replace the credentials of the Shoot")
}

// TestClients_WorkloadIdentityWithoutToken waits for gardenlet.
func TestClients_WorkloadIdentityWithoutToken(t *testing.T) {
	t.Parallel()

	secret := identityOf(t, "")
	delete(secret.Data, "kubeconfig")

	err := connectWith(t, secret)
	require.ErrorIs(t, err, errNoToken)
	require.NotErrorIs(t, err, ErrCredentials)
	require.True(t, IsFailure(err), "a Shoot that never got a token can be deleted")
}
