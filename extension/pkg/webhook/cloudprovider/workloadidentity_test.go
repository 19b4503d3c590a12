// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// ensure calls the webhook for a new Secret.
func ensure(t *testing.T, secret *corev1.Secret, infrastructureConfig string) error {
	t.Helper()

	return update(t, secret, nil, infrastructureConfig)
}

// update calls the webhook for a change of a Secret.
func update(t *testing.T, secret, oldSecret *corev1.Secret, infrastructureConfig string) error {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--garden--own"}}
	shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig"` + infrastructureConfig + `}`)}

	options := &kubevirt.IdentityOptions{AllowedServers: []string{"https://provider.example.com:6443", "https://other.example.com"}}

	return (&ensurer{identities: options}).EnsureCloudProviderSecret(t.Context(), gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: shoot}), secret, oldSecret)
}

// secretOf returns a Secret of a WorkloadIdentity as gardenlet writes it.
func secretOf(fields string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{
				"security.gardener.cloud/purpose":                   "workload-identity-token-requestor",
				"workloadidentity.security.gardener.cloud/provider": "kubevirt",
			},
			Annotations: map[string]string{
				"workloadidentity.security.gardener.cloud/namespace":             "garden-dev",
				"workloadidentity.security.gardener.cloud/name":                  "a",
				"workloadidentity.security.gardener.cloud/token-renew-timestamp": "2026-11-27T12:00:00Z",
			},
		},
		Data: map[string][]byte{
			"config": []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "WorkloadIdentityConfig", ` + fields + `}`),
		},
	}
}

// tokenOf returns a token of a WorkloadIdentity.
func tokenOf(namespace, name, id string) []byte {
	claims := fmt.Sprintf(`{"sub": "gardener.cloud:workloadidentity:%s:%s:%s", "jti": "%s"}`, namespace, name, "uid", id)

	return []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl")
}

const validConfig = `"server": "https://provider.example.com:6443", "tlsServerName": "api.example.com", "namespace": "machines"`

// TestEnsureCloudProviderSecret_WorkloadIdentity writes the kubeconfig once there is a token, and again when
// the token is renewed.
func TestEnsureCloudProviderSecret_WorkloadIdentity(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)

	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	secret := secretOf(validConfig + `, "certificateAuthority": ` + strconv.Quote(string(authority)))

	require.NoError(t, ensure(t, secret, ""))
	require.NotContains(t, secret.Data, "kubeconfig", "there is no token yet")

	for _, id := range []string{"first", "second"} {
		token := tokenOf("garden-dev", "a", id)
		secret.Data["token"] = token
		require.NoError(t, ensure(t, secret, ""))

		config, namespace, err := kubeconfig.RESTConfig(secret.Data["kubeconfig"])
		require.NoError(t, err)
		require.Equal(t, "machines", namespace)
		require.Equal(t, "https://provider.example.com:6443", config.Host)
		require.Equal(t, "api.example.com", config.ServerName)
		require.Equal(t, authority, config.CAData)
		require.Equal(t, string(token), config.BearerToken)
	}

	once := secret.DeepCopy()
	require.NoError(t, ensure(t, secret, ""))
	require.Equal(t, once, secret, "without a change, nothing is written")

	require.NoError(t, ensure(t, secret, `, "namespace": {"create": true}`))
	_, namespace, err := kubeconfig.RESTConfig(secret.Data["kubeconfig"])
	require.NoError(t, err)
	require.Equal(t, "shoot--garden--own", namespace)

	delete(secret.Data, "token")
	require.NoError(t, ensure(t, secret, ""))
	require.NotContains(t, secret.Data, "kubeconfig")
}

// TestEnsureCloudProviderSecret_InvalidWorkloadIdentity refuses a config that cannot work, and does not touch
// the Secrets of other providers.
func TestEnsureCloudProviderSecret_InvalidWorkloadIdentity(t *testing.T) {
	t.Parallel()

	for fields, want := range map[string]string{
		`"server": "https://provider.example.com"`:                                           "spec.targetSystem.providerConfig.namespace: Required",
		`"server": "https://provider.example.com", "namespace": "machines", "user": "admin"`: "spec.targetSystem.providerConfig.user",
		`"server": "https://attacker.example.net", "namespace": "machines"`:                  "spec.targetSystem.providerConfig.server: Forbidden",
	} {
		secret := secretOf(fields)
		secret.Data["token"] = tokenOf("garden-dev", "a", "1")

		err := ensure(t, secret, "")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), string(secret.Data["token"]))
	}

	other := secretOf("")
	other.Labels["workloadidentity.security.gardener.cloud/provider"] = "aws"
	before := other.DeepCopy()
	require.NoError(t, ensure(t, other, ""))
	require.Equal(t, before, other)
}

// TestEnsureCloudProviderSecret_TokenOfAnother does not send the token of a WorkloadIdentity to the server of
// another one: gardenlet keeps it in the Secret when the Shoot changes to that one.
func TestEnsureCloudProviderSecret_TokenOfAnother(t *testing.T) {
	t.Parallel()

	const renewTimestamp = "workloadidentity.security.gardener.cloud/token-renew-timestamp"

	other := `"server": "https://other.example.com", "namespace": "machines"`

	for name, tc := range map[string]struct {
		reason string
		token  []byte
		fields string
		old    *corev1.Secret
		keeps  bool
	}{
		"Own":            {reason: "gardenlet requested it for this one", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, keeps: true},
		"OwnAgain":       {reason: "the labels changed", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, old: secretOf(validConfig), keeps: true},
		"OtherNamespace": {reason: "the machines are on the same server", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, old: secretOf(strings.Replace(validConfig, "machines", "others", 1)), keeps: true},
		"Another":        {reason: "the Shoot changed to another WorkloadIdentity", token: tokenOf("garden-dev", "b", "1"), fields: validConfig},
		"Prefix":         {reason: "the name of another begins with it", token: tokenOf("garden-dev", "a-2", "1"), fields: validConfig},
		"OfProject":      {reason: "another project has one of the same name", token: tokenOf("garden-other", "a", "1"), fields: validConfig},
		"Unknown":        {reason: "it is not a token of the garden", token: []byte("opaque"), fields: validConfig},
		"AnotherServer":  {reason: "another was created with the same name", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, old: secretOf(other)},
		"NewAuthority":   {reason: "another server can have the same address", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, old: secretOf(strings.Replace(validConfig, "api.", "b.", 1))},
		"InvalidConfig":  {reason: "the old config named no server", token: tokenOf("garden-dev", "a", "1"), fields: validConfig, old: secretOf(`"server": ""`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			secret := secretOf(tc.fields)
			secret.Data["token"] = tc.token

			if tc.old != nil {
				tc.old.Data["token"] = tc.token
			}

			require.NoError(t, update(t, secret, tc.old, ""), tc.reason)

			for _, key := range []string{"token", "kubeconfig"} {
				require.Equal(t, tc.keeps, len(secret.Data[key]) > 0, "%s: %s", key, tc.reason)
			}

			require.Equal(t, tc.keeps, secret.Annotations[renewTimestamp] != "", "gardenlet requests a token at once: %s", tc.reason)
		})
	}

	secret := secretOf(other)
	secret.Data["token"] = tokenOf("garden-dev", "a", "2")
	old := secretOf(validConfig)
	old.Data["token"] = tokenOf("garden-dev", "a", "1")
	require.NoError(t, update(t, secret, old, ""))
	require.Contains(t, secret.Data, "kubeconfig", "the token is a new one")
}
