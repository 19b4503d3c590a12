// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

func TestAccountOf(t *testing.T) {
	t.Parallel()

	for namespace, want := range map[string]Account{
		"shoot-machines": AccountIn("shoot-machines"), "": AccountIn("default"), "gardener": AccountForNamespaces(),
	} {
		kubeconfig, err := yaml.Marshal(kubeconfigOf(&rest.Config{Host: "https://provider.example.com"}, namespace, map[string]any{"token": "abc"}))
		require.NoError(t, err)

		account, err := accountOf(kubeconfig)
		require.NoError(t, err)
		require.Equal(t, want, account)
	}

	_, err := accountOf([]byte("{"))
	require.Error(t, err)
}

func TestCreatesNamespace(t *testing.T) {
	t.Parallel()

	for config, want := range map[string]bool{
		`{"namespace": {"create": true}}`:  true,
		`{"namespace": {"create": false}}`: false,
		`{"networks": {}}`:                 false,
		`[]`:                               false,
	} {
		shoot := &gardencorev1beta1.Shoot{}
		shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(config)}
		require.Equal(t, want, createsNamespace(shoot), config)
	}

	require.False(t, createsNamespace(&gardencorev1beta1.Shoot{}))
}

// TestCredentialsRef requires both kinds of bindings to lead to their Secret, and an error to name the field.
func TestCredentialsRef(t *testing.T) {
	t.Parallel()

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "garden-dev", Name: name} }
	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(
		&securityv1alpha1.CredentialsBinding{ObjectMeta: meta("credentials"), CredentialsRef: corev1.ObjectReference{Kind: "Secret", Namespace: "a", Name: "b"}},
		&securityv1alpha1.CredentialsBinding{ObjectMeta: meta("identity"), CredentialsRef: corev1.ObjectReference{Kind: "WorkloadIdentity", Namespace: "a", Name: "b"}},
		&gardencorev1beta1.SecretBinding{ObjectMeta: meta("secret"), SecretRef: corev1.SecretReference{Namespace: "c", Name: "d"}}, //nolint:staticcheck // deprecated, but still in use
	).Build()

	for name, tc := range map[string]struct {
		spec  gardencorev1beta1.ShootSpec
		want  client.ObjectKey
		field string
	}{
		"CredentialsBinding": {spec: gardencorev1beta1.ShootSpec{CredentialsBindingName: ptr.To("credentials")}, want: client.ObjectKey{Namespace: "a", Name: "b"}},
		"SecretBinding":      {spec: gardencorev1beta1.ShootSpec{SecretBindingName: ptr.To("secret")}, want: client.ObjectKey{Namespace: "c", Name: "d"}},
		"WorkloadIdentity":   {spec: gardencorev1beta1.ShootSpec{CredentialsBindingName: ptr.To("identity")}, field: "spec.credentialsBindingName"},
		"none":               {field: "spec.credentialsBindingName"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := (&Seed{Garden: garden}).credentialsRef(t.Context(), &gardencorev1beta1.Shoot{ObjectMeta: meta("shoot"), Spec: tc.spec})
			require.Equal(t, tc.want, got)

			if tc.field == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errNoCredentials)
				require.ErrorContains(t, err, tc.field)
			}
		})
	}
}
