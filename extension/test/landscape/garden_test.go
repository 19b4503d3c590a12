package main

import (
	"context"
	"errors"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestLabelCredentials requires a binding without a Secret not to prevent the labels of the others.
func TestLabelCredentials(t *testing.T) {
	t.Parallel()

	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "garden-dev", Name: name} }
	binding := func(kind, name string) *securityv1alpha1.CredentialsBinding {
		return &securityv1alpha1.CredentialsBinding{
			ObjectMeta: meta(name), Provider: securityv1alpha1.CredentialsBindingProvider{Type: providerType},
			CredentialsRef: corev1.ObjectReference{Kind: kind, Namespace: "garden-dev", Name: name},
		}
	}
	l := newGarden(func() error { return nil },
		binding("Secret", "a-missing"), binding("WorkloadIdentity", "b-identity"), binding("Secret", "c-credentials"),
		&gardencorev1beta1.SecretBinding{ //nolint:staticcheck // deprecated, but still in use
			ObjectMeta: meta("d"), Provider: &gardencorev1beta1.SecretBindingProvider{Type: providerType}, SecretRef: corev1.SecretReference{Namespace: "garden-dev", Name: "d-secret"},
		},
		&corev1.Secret{ObjectMeta: meta("c-credentials")}, &corev1.Secret{ObjectMeta: meta("d-secret")},
	)

	err := l.labelCredentials(t.Context())
	require.ErrorContains(t, err, "a-missing")
	require.NotContains(t, err.Error(), "b-identity")

	for _, name := range []string{"c-credentials", "d-secret"} {
		secret := &corev1.Secret{}
		require.NoError(t, l.seed.Garden.Get(t.Context(), client.ObjectKey{Namespace: "garden-dev", Name: name}, secret))
		require.Equal(t, map[string]string{"provider.shoot.gardener.cloud/kubevirt": "true"}, secret.Labels)
	}
}

// TestSchedule requires a Shoot that cannot be placed not to keep the others from the Seed.
func TestSchedule(t *testing.T) {
	t.Parallel()

	refused := errors.New("refused")

	var placed []string

	a, b := shootOf("a", 0), shootOf("b", 0)
	a.Spec.SeedName, b.Spec.SeedName = nil, nil
	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(a, b).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
			if object.GetName() == "a" {
				return refused
			}

			placed = append(placed, object.GetName())

			return nil
		},
	}).Build()

	l := newGarden(nil)
	l.seed.Garden = garden

	require.ErrorIs(t, l.schedule(t.Context()), refused)
	require.Equal(t, []string{"b"}, placed)
}

// TestInstall requires an extension that cannot be installed not to prevent the others, and their tokens.
func TestInstall(t *testing.T) {
	t.Parallel()

	failure := errors.New("failed")
	reconciled := map[string]int{}
	reconciler := reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
		reconciled[r.Name]++
		if r.Name == "broken" {
			return reconcile.Result{}, failure
		}

		return reconcile.Result{}, nil
	})

	installation := func(name string) *gardencorev1beta1.ControllerInstallation {
		return &gardencorev1beta1.ControllerInstallation{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"hash": "a"}}, Spec: gardencorev1beta1.ControllerInstallationSpec{DeploymentRef: &corev1.ObjectReference{Name: name}},
		}
	}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{
			"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "garden",
		}}}
	}
	i := &installations{
		seed: &seed.Seed{
			Garden: fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(installation("broken"), installation("extension")).Build(),
			Client: fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(secret("broken"), secret("token")).Build(),
		},
		installed: reconciler, checked: reconciler, tokens: reconciler, done: map[string]string{},
	}

	require.ErrorIs(t, i.install(t.Context(), func(string, ...any) {}), failure)
	require.Equal(t, map[string]int{"broken": 2, "extension": 2, "token": 1}, reconciled)
}
