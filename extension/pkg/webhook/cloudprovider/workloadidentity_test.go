// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"encoding/pem"
	"net/http/httptest"
	"strconv"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// ensure calls the webhook for a Secret.
func ensure(t *testing.T, secret *corev1.Secret, infrastructureConfig string) error {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: "shoot--garden--own"}}
	shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureConfig"` + infrastructureConfig + `}`)}

	return (&ensurer{}).EnsureCloudProviderSecret(t.Context(), gcontext.NewInternalGardenContext(&extensionscontroller.Cluster{Shoot: shoot}), secret, nil)
}

// secretOf returns a Secret of a WorkloadIdentity as gardenlet writes it.
func secretOf(fields string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			"security.gardener.cloud/purpose":                   "workload-identity-token-requestor",
			"workloadidentity.security.gardener.cloud/provider": "kubevirt",
		}},
		Data: map[string][]byte{
			"config": []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "WorkloadIdentityConfig", ` + fields + `}`),
		},
	}
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

	for _, token := range []string{"first", "second"} {
		secret.Data["token"] = []byte(token)
		require.NoError(t, ensure(t, secret, ""))

		config, namespace, err := kubeconfig.RESTConfig(secret.Data["kubeconfig"])
		require.NoError(t, err)
		require.Equal(t, "machines", namespace)
		require.Equal(t, "https://provider.example.com:6443", config.Host)
		require.Equal(t, "api.example.com", config.ServerName)
		require.Equal(t, authority, config.CAData)
		require.Equal(t, token, config.BearerToken)
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
	} {
		secret := secretOf(fields)
		secret.Data["token"] = []byte("secret-token")

		err := ensure(t, secret, "")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret-token")
	}

	other := secretOf("")
	other.Labels["workloadidentity.security.gardener.cloud/provider"] = "aws"
	before := other.DeepCopy()
	require.NoError(t, ensure(t, other, ""))
	require.Equal(t, before, other)
}
