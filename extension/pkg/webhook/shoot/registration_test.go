// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// managerWith returns a manager with a client, which is never started.
func managerWith(t *testing.T, c client.Client) manager.Manager {
	t.Helper()

	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme:         c.Scheme(),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return c.RESTMapper(), nil },
	})
	require.NoError(t, err)

	return mgr
}

// TestAddToManager_Response sends requests to the webhook, as an API server does.
func TestAddToManager_Response(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		from   string
		patch  string
	}{
		"Known": {
			reason: "the API server of a shoot",
			from:   "127.0.0.1",
			patch: `[{"op": "add", "path": "/spec/nodeAffinity", "value":
				{"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}]}}}]`,
		},
		"Unknown": {reason: "allowed without a change: a denial would stop the volumes of the shoot", from: address},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			webhook, err := AddToManager(managerWith(t, seedWith(t, interceptor.Funcs{}, apiServer("a", namespace, tc.from), shootWith(t, namespace, profile))))
			require.NoError(t, err)

			server := httptest.NewServer(webhook.Webhook)
			t.Cleanup(server.Close)

			response := review(t, server.URL, volume())
			require.True(t, response.Allowed, tc.reason)

			if tc.patch == "" {
				require.Empty(t, response.Patch, tc.reason)
			} else {
				require.JSONEq(t, tc.patch, string(response.Patch), tc.reason)
			}
		})
	}
}

// review returns the response to the creation of a volume.
func review(t *testing.T, url string, v *corev1.PersistentVolume) *admissionv1.AdmissionResponse {
	t.Helper()

	raw, err := json.Marshal(v)
	require.NoError(t, err)

	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       "1",
			Operation: admissionv1.Create,
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"},
			Object:    runtime.RawExtension{Raw: raw},
		},
	})
	require.NoError(t, err)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")

	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)

	defer func() { require.NoError(t, response.Body.Close()) }()

	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)

	answer := admissionv1.AdmissionReview{}
	require.NoError(t, json.Unmarshal(content, &answer), string(content))
	require.NotNil(t, answer.Response, string(content))

	return answer.Response
}

// TestAddToManager_Configuration requires a shoot to work while the extension does not respond, and
// gardenlet not to report the webhook as a problem of the user.
func TestAddToManager_Configuration(t *testing.T) {
	t.Parallel()

	seed := seedWith(t, interceptor.Funcs{})

	webhook, err := AddToManager(managerWith(t, seed))
	require.NoError(t, err)

	ofSeed, ofShoot, err := extensionswebhook.BuildWebhookConfigs([]*extensionswebhook.Webhook{webhook}, seed,
		"extension-provider-kubevirt", "provider-kubevirt", false, 443, extensionswebhook.ModeService, "", nil, false)
	require.NoError(t, err)
	require.False(t, ofSeed.HasWebhookConfig(), "PersistentVolumes of the seed are not ours")

	config := ofShoot.MutatingWebhookConfig
	require.Equal(t, "true", config.Labels["remediation.webhook.shoot.gardener.cloud/exclude"])
	require.Len(t, config.Webhooks, 1)
	require.Equal(t, admissionregistrationv1.Ignore, *config.Webhooks[0].FailurePolicy)
	require.EqualValues(t, 5, *config.Webhooks[0].TimeoutSeconds)
	require.Equal(t, []string{"persistentvolumes"}, config.Webhooks[0].Rules[0].Resources, "not their status")
	require.Equal(t, "https://gardener-extension-provider-kubevirt.extension-provider-kubevirt:443/shoot", *config.Webhooks[0].ClientConfig.URL,
		"the kube-apiserver resolves it in the seed")
}
