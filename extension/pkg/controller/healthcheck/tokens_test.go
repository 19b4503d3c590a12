// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// TestTokensCheck asks the provider cluster whether it accepts the token of a program. Only the response
// Unauthorized says that it does not.
func TestTokensCheck(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		answer *metav1.Status
		want   gardencorev1beta1.ConditionStatus
	}{
		"Accepted":  {"the server knows who it is", nil, gardencorev1beta1.ConditionTrue},
		"Rejected":  {"the signing key was rotated", status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized"), gardencorev1beta1.ConditionFalse},
		"Old":       {"Kubernetes 1.27 does not know the request", status(http.StatusNotFound, metav1.StatusReasonNotFound, ""), gardencorev1beta1.ConditionTrue},
		"Forbidden": {"who is denied is known", status(http.StatusForbidden, metav1.StatusReasonForbidden, ""), gardencorev1beta1.ConditionTrue},
		"Broken":    {"another check reports it", status(http.StatusInternalServerError, metav1.StatusReasonInternalError, ""), gardencorev1beta1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var asked []string

			running := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))

				w.Header().Set("Content-Type", "application/json")

				if tc.answer == nil {
					_, _ = w.Write([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))

					return
				}

				w.WriteHeader(int(tc.answer.Code))
				_ = json.NewEncoder(w).Encode(tc.answer)
			}))
			t.Cleanup(running.Close)

			seed := newSeed(t, "", &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace:   request.Namespace,
					Name:        identity.SecretName("csi-driver-controller"),
					Annotations: map[string]string{"kubevirt.provider.extensions.gardener.cloud/renew-token-at": time.Now().Add(time.Hour).Format(time.RFC3339)},
				},
				Data: map[string][]byte{"kubeconfig": []byte(kubeconfigOf(running)), "token": []byte(token)},
			})

			result, err := (&tokensCheck{seed: seed, accepts: (&providercluster.Clients{}).Accepts}).Check(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, tc.want, result.Status, tc.reason)
			require.Equal(t, []string{"/apis/authentication.k8s.io/v1/selfsubjectreviews Bearer " + token}, asked)
			require.NotContains(t, result.Detail, token)

			if tc.want == gardencorev1beta1.ConditionFalse {
				require.Contains(t, result.Detail, "tokens of csi-driver-controller")
				require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies}, result.Codes)
			}
		})
	}
}
