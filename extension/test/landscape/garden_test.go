// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/gardener/gardener/pkg/api/indexer"
	gardencore "github.com/gardener/gardener/pkg/apis/core"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestProtect deletes what a Shoot needs before the Shoot.
func TestProtect(t *testing.T) {
	t.Parallel()

	const namespace = "garden-dev"

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"}}
	binding := &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "binding"},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: providerType},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: secret.Name},
	}
	profile := &gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt"}}
	s := &gardencorev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shoot"},
		Spec: gardencorev1beta1.ShootSpec{
			CredentialsBindingName: ptr.To(binding.Name),
			CloudProfile:           &gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: profile.Name},
		},
	}

	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(secret, binding, profile, s).
		WithStatusSubresource(profile).
		WithIndex(&gardencorev1beta1.NamespacedCloudProfile{}, gardencore.NamespacedCloudProfileParentRefName, indexer.NamespacedCloudProfileParentRefNameIndexerFunc).
		Build()

	r := newReferences(garden)
	reports := 0
	protect := func() error { return r.protect(t.Context(), func(string, ...any) { reports++ }) }

	require.NoError(t, protect())
	require.NoError(t, protect())
	require.Equal(t, 2, reports, "each object is reported once")

	needed := []client.Object{secret, binding, profile}
	for _, object := range needed {
		require.NoError(t, garden.Delete(t.Context(), object))
	}

	err := protect()
	require.ErrorContains(t, err, "binding: Cannot delete CredentialsBinding")
	require.ErrorContains(t, err, "kubevirt: Cannot delete CloudProfile")

	for _, object := range needed {
		require.NoError(t, garden.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}

	require.Equal(t, "true", secret.Labels["provider.shoot.gardener.cloud/"+providerType])

	require.NoError(t, garden.Delete(t.Context(), s))
	require.NoError(t, protect())

	for _, object := range needed {
		require.True(t, apierrors.IsNotFound(garden.Get(t.Context(), client.ObjectKeyFromObject(object), object)), object.GetName())
	}
}

// TestSchedule requires a Shoot that cannot be placed not to keep the others from the Seed.
func TestSchedule(t *testing.T) {
	t.Parallel()

	refused := errors.New("refused")

	var placed []string

	a := shootOf("a", 0)
	b := shootOf("b", 0)
	a.Spec.SeedName = nil
	b.Spec.SeedName = nil
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
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"hash": "a"}},
			Spec:       gardencorev1beta1.ControllerInstallationSpec{DeploymentRef: &corev1.ObjectReference{Name: name}},
		}
	}
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a",
			Name:      name,
			Labels: map[string]string{
				"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "garden",
			},
		}}
	}
	i := &installations{
		seed: &seed.Seed{
			Garden: fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(installation("broken"), installation("extension")).Build(),
			Client: fake.NewClientBuilder().WithScheme(kubernetes.SeedScheme).WithObjects(secret("broken"), secret("token")).Build(),
		},
		installed: reconciler,
		checked:   reconciler,
		tokens:    reconciler,
		done:      map[string]string{},
	}

	require.ErrorIs(t, i.install(t.Context(), func(string, ...any) {}), failure)
	require.Equal(t, map[string]int{"broken": 2, "extension": 2, "token": 1}, reconciled)
}
