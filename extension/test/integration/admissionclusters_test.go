// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestAdmissionClusters requires the admission, installed as gardener-operator does, to keep its Lease and its
// certificates in the runtime cluster, and to have its webhooks in the virtual garden cluster.
func TestAdmissionClusters(t *testing.T) {
	t.Parallel()

	requireOnlyIn(t, theSeed.Client, theSeed.Garden, seed.AdmissionLease())

	namespace := &corev1.Namespace{}
	require.NoError(t, theSeed.Garden.Get(t.Context(), client.ObjectKey{Name: seed.ExtensionNamespace}, namespace))

	bundle := requireCertificates(t)

	for _, config := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: seed.AdmissionAccount}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: seed.AdmissionAccount}},
	} {
		requireOnlyIn(t, theSeed.Garden, theSeed.Client, config)
		require.True(t, metav1.IsControlledBy(config, namespace), "deleted with the namespace of the Extension")

		for _, webhook := range clientConfigs(t, config) {
			require.Nil(t, webhook.Service, "the virtual garden cluster does not have the Service")
			require.Equal(t, bundle, webhook.CABundle)
		}
	}

	requireDecisions(t)
}

// requireOnlyIn reads an object from one cluster, and requires that another one does not have it.
func requireOnlyIn(t *testing.T, cluster, other client.Client, object client.Object) {
	t.Helper()

	key := client.ObjectKeyFromObject(object)
	require.True(t, apierrors.IsNotFound(other.Get(t.Context(), key, object)), "%T %s", object, key)
	require.NoError(t, cluster.Get(t.Context(), key, object))
}

// requireCertificates requires the certificates to be in the runtime cluster, and returns those of the CA.
func requireCertificates(t *testing.T) (bundle []byte) {
	t.Helper()

	ofAdmission := client.MatchingLabels{secretsmanager.LabelKeyManagerIdentity: seed.AdmissionAccount + "-webhook"}

	secrets := &corev1.SecretList{}
	require.NoError(t, theSeed.Garden.List(t.Context(), secrets, ofAdmission))
	require.Empty(t, secrets.Items)

	require.NoError(t, theSeed.Client.List(t.Context(), secrets, ofAdmission))

	for _, secret := range secrets.Items {
		require.Equal(t, "garden", secret.Namespace)

		if data := secret.Data[secretsutils.DataKeyCertificateBundle]; data != nil {
			bundle = data
		}
	}

	require.NotEmpty(t, bundle)

	return bundle
}

func clientConfigs(t *testing.T, object client.Object) (configs []admissionregistrationv1.WebhookClientConfig) {
	t.Helper()

	switch registered := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, webhook := range registered.Webhooks {
			configs = append(configs, webhook.ClientConfig)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, webhook := range registered.Webhooks {
			configs = append(configs, webhook.ClientConfig)
		}
	}

	require.NotEmpty(t, configs)

	return configs
}

// requireDecisions requires the API server of the virtual garden cluster to accept a Shoot, and to refuse it
// with a mistake that only the webhook knows.
func requireDecisions(t *testing.T) {
	t.Helper()

	garden := garden(t)
	shoot := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, shoot))

	shoot.Name = "decided"
	shoot.Spec.CredentialsBindingName = ptr.To("core-kubevirt")
	require.NoError(t, garden.Create(t.Context(), shoot.DeepCopy(), client.DryRunAll))

	shoot.Spec.Provider.Workers[0].ProviderConfig = config(t, "WorkerConfig", "cpu: {core: 2}")
	require.ErrorContains(t, garden.Create(t.Context(), shoot, client.DryRunAll), "admission webhook")
}
