// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// TestSecrets_LargeUserData accepts responses with the user data of the request, however large that is, and
// no larger ones.
func TestSecrets_LargeUserData(t *testing.T) {
	t.Parallel()

	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "machines"},
		Data:       map[string][]byte{"userdata": bytes.Repeat([]byte("x"), 700<<10)},
	}
	text, err := json.Marshal(secret)
	require.NoError(t, err)

	clients := clientsOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		if r.Method == http.MethodDelete { // It responds with the deleted objects.
			_, _ = io.WriteString(w, `{"kind":"SecretList","apiVersion":"v1","items":[`+string(text)+`]}`)
		} else {
			_, _ = w.Write(text)
		}
	}))

	_, err = clients.Secrets().Create(t.Context(), secret)
	require.NoError(t, err)
	require.NoError(t, clients.Secrets().DeleteCollection(t.Context(), "m", "a=b"))

	_, err = clients.Secrets().Get(transport.Expect(t.Context(), len(text)), "m")
	require.NoError(t, err)

	_, err = clients.Secrets().Get(t.Context(), "m")
	require.ErrorContains(t, err, "it takes more than 1 MiB of memory")

	_, err = clients.Secrets().Get(t.Context(), strings.Repeat("m", 9<<10))
	require.ErrorContains(t, err, "a URL of more than 8 KiB")
}
