// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestStolenBootstrapRights uses machine-controller-manager's account to try the actions that
// kubernetes/target must prevent.
func TestStolenBootstrapRights(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	config, err := clientcmd.BuildConfigFromFlags("", s.MCMKubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	harness.Eventually(t, "the policy is in force", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "another-name"}}, harness.DryRun)

		return apierrors.IsForbidden(err), nil
	})

	for name, tc := range map[string]struct {
		kind    corev1.SecretType
		allowed bool
	}{
		"bootstrap-token-" + s.Name: {kind: corev1.SecretTypeBootstrapToken, allowed: true},
		"bootstrap-token-opaque":    {kind: corev1.SecretTypeOpaque},
		"bootstrap-token-account":   {kind: corev1.SecretTypeServiceAccountToken},
		"another-name":              {kind: corev1.SecretTypeBootstrapToken},
	} {
		secret := &corev1.Secret{
			Type: tc.kind,
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
			},
		}

		_, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), secret, harness.DryRun)
		if tc.allowed {
			require.NoError(t, err)
		} else {
			requireNoBootstrapToken(t, err)
		}
	}

	secrets := s.Target.CoreV1().Secrets(metav1.NamespaceSystem)
	_, err = secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, secrets.Delete(context.WithoutCancel(t.Context()), s.Name, metav1.DeleteOptions{}))
	})
	requireNoBootstrapToken(t, client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(t.Context(), s.Name, metav1.DeleteOptions{}))
}

func requireNoBootstrapToken(t *testing.T, err error) {
	t.Helper()
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "ValidatingAdmissionPolicy 'machine-controller-manager-bootstrap-tokens'")
}
