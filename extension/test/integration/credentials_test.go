// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	secretToken = "do-not-quote-me"
	// withProgram is a kubeconfig that runs a program.
	withProgram = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
		"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com"}}], "users": [{"name": "a", "user": {"token": "` + secretToken + `", "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}}}]}`
	withToken = `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "machines"}}],
		"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com"}}], "users": [{"name": "a", "user": {"token": "` + secretToken + `"}}]}`
)

// credentials creates a Secret in the garden.
func credentials(t *testing.T, name, kubeconfig string, labels map[string]string) *corev1.Secret {
	t.Helper()

	garden := garden(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: name, Labels: labels},
		Data:       map[string][]byte{"kubeconfig": []byte(kubeconfig)},
	}
	require.NoError(t, garden.Create(t.Context(), secret))
	t.Cleanup(func() { require.NoError(t, garden.Delete(context.WithoutCancel(t.Context()), secret)) })

	return secret
}

// bindingOf returns a CredentialsBinding for a Secret.
func bindingOf(secret *corev1.Secret) *securityv1alpha1.CredentialsBinding {
	return &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "kubevirt"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name},
	}
}

// TestAdmissionOfBindings refuses bindings to credentials that the driver would refuse.
func TestAdmissionOfBindings(t *testing.T) {
	t.Parallel()

	garden := garden(t)
	wrong := credentials(t, "binding-wrong", withProgram, nil)
	valid := credentials(t, "binding-valid", withToken, nil)

	secretBinding := &gardencorev1beta1.SecretBinding{ //nolint:staticcheck // deprecated, but still in use
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "wrong"},
		Provider:   &gardencorev1beta1.SecretBindingProvider{Type: "kubevirt"}, //nolint:staticcheck // see above
		SecretRef:  corev1.SecretReference{Namespace: "garden-dev", Name: wrong.Name},
	}

	for _, binding := range []client.Object{secretBinding, bindingOf(wrong)} {
		err := garden.Create(t.Context(), binding)
		require.ErrorContains(t, err, "data[kubeconfig]")
		require.ErrorContains(t, err, "use a token or client-certificate-data")
		require.NotContains(t, err.Error(), secretToken)
	}

	secretBinding.SecretRef.Name = valid.Name
	for _, binding := range []client.Object{secretBinding, bindingOf(valid)} {
		require.NoError(t, garden.Create(t.Context(), binding, client.DryRunAll))
	}

	require.NoError(t, garden.Create(t.Context(), &gardencorev1beta1.InternalSecret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "internal"}}))

	internal := bindingOf(valid)
	internal.CredentialsRef = corev1.ObjectReference{APIVersion: "core.gardener.cloud/v1beta1", Kind: "InternalSecret", Namespace: "garden-dev", Name: "internal"}
	err := garden.Create(t.Context(), internal)
	require.ErrorContains(t, err, "credentialsRef.kind")
	require.ErrorContains(t, err, `supported values: "Secret"`)
}

// TestAdmissionOfSecrets refuses changes of credentials that the driver would refuse, and never quotes them.
func TestAdmissionOfSecrets(t *testing.T) { //nolint:tparallel // The steps change one Secret.
	t.Parallel()

	// gardener-controller-manager labels Secrets of bindings.
	garden := garden(t)
	secret := credentials(t, "labelled", withToken, map[string]string{"provider.shoot.gardener.cloud/kubevirt": "true"})

	for name, refused := range map[string]struct{ kubeconfig, remedy string }{
		"program":   {withProgram, "use a token or client-certificate-data"},
		"none":      {"", "set the kubeconfig of an account of the provider cluster"},
		"namespace": {strings.Replace(withToken, `"namespace": "machines"`, `"namespace": "others"`, 1), "the namespace of the current context must remain machines"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := secret.DeepCopy()
			wrong.Data["kubeconfig"] = []byte(refused.kubeconfig)

			err := garden.Update(t.Context(), wrong)
			require.ErrorContains(t, err, "data[kubeconfig]")
			require.ErrorContains(t, err, refused.remedy)
			require.NotContains(t, err.Error(), secretToken)
		})
	}

	rotated := secret.DeepCopy()
	rotated.Data["kubeconfig"] = []byte(strings.Replace(withToken, secretToken, "another", 1))
	require.NoError(t, garden.Update(t.Context(), rotated))
}

// requireOtherCredentials changes the CredentialsBinding of a Shoot: its machines cannot move to another
// namespace.
func requireOtherCredentials(t *testing.T, shoot *gardencorev1beta1.Shoot) {
	t.Helper()

	garden := garden(t)
	elsewhere := bindingOf(credentials(t, "elsewhere", withToken, nil))
	same := bindingOf(credentials(t, "same", strings.Replace(withToken, `"machines"`, `"johndoe-kubevirt"`, 1), nil))

	for _, binding := range []*securityv1alpha1.CredentialsBinding{elsewhere, same} {
		require.NoError(t, garden.Create(t.Context(), binding))
		t.Cleanup(func() { require.NoError(t, garden.Delete(context.WithoutCancel(t.Context()), binding)) })
	}

	changed := shoot.DeepCopy()
	changed.Spec.CredentialsBindingName = ptr.To(elsewhere.Name)

	eventually(t, func(ctx context.Context) (bool, string) { // gardener-apiserver has a cache.
		err := garden.Update(ctx, changed.DeepCopy(), client.DryRunAll)

		return err != nil && strings.Contains(err.Error(), "spec.credentialsBindingName: Forbidden: the kubeconfig of CredentialsBinding elsewhere points to namespace machines, but the machines are in namespace johndoe-kubevirt"), fmt.Sprint(err)
	})

	changed.Spec.CredentialsBindingName = ptr.To(same.Name)
	eventually(t, func(ctx context.Context) (bool, string) {
		err := garden.Update(ctx, changed.DeepCopy(), client.DryRunAll)

		return err == nil, fmt.Sprint(err)
	})
}
