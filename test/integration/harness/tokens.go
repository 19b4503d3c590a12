// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// NewToken returns another token of the shoot's account in the provider cluster.
func (s *Shoot) NewToken(t *testing.T) string {
	t.Helper()

	made, err := s.Kube.CoreV1().ServiceAccounts(s.ProviderNamespace).CreateToken(t.Context(), "machine-controller", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	return made.Status.Token
}

// WithToken returns the kubeconfig with its token changed.
func WithToken(t *testing.T, kubeconfig []byte, change func(token string) string) []byte {
	t.Helper()

	config, err := clientcmd.Load(kubeconfig)
	require.NoError(t, err)

	for _, user := range config.AuthInfos {
		user.Token = change(user.Token)
	}

	raw, err := clientcmd.Write(*config)
	require.NoError(t, err)

	return raw
}
