// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// revoked is the token that the programs have before a test.
const revoked = "revoked"

// newAccounts returns the accounts of a shoot whose credentials were replaced: its programs have a token
// that the provider cluster does not accept.
func newAccounts(t *testing.T, objects ...client.Object) accounts {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, extensionsv1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}

	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cloudprovider"},
		Data: map[string][]byte{"kubeconfig": []byte(
			`{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "machines"}}],
			"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com:6443"}}], "users": [{"name": "a", "user": {"token": "new"}}]}`)},
	})

	for _, i := range identities {
		builder.WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   namespace,
				Name:        identity.SecretName(i.Program),
				Annotations: map[string]string{"kubevirt.provider.extensions.gardener.cloud/renew-token-at": time.Now().Add(time.Hour).Format(time.RFC3339)},
			},
			Data: map[string][]byte{"token": []byte(revoked), "kubeconfig": []byte(
				`{"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
				"clusters": [{"name": "a", "cluster": {"server": "https://provider.example.com:6443"}}], "users": [{"name": "a", "user": {"tokenFile": "/var/run/secrets/provider/token"}}]}`)},
		})
	}

	provider := fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).Build()

	return accounts{
		seed: builder.Build(),
		newProviderCluster: func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
			return &providercluster.Cluster{Client: provider, Namespace: "machines"}, nil
		},
		accepts: func(_ context.Context, config *rest.Config) bool { return config.BearerToken != revoked },
	}
}

// replaced returns the programs whose token is not the revoked one any more.
func (a accounts) replaced(t *testing.T) (programs []string) {
	t.Helper()

	for _, i := range identities {
		secret := &corev1.Secret{}
		require.NoError(t, a.seed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: identity.SecretName(i.Program)}, secret))

		if string(secret.Data["token"]) != revoked {
			programs = append(programs, i.Program)
		}
	}

	return programs
}

var all = []string{kubevirt.CloudControllerManagerName, kubevirt.CSIControllerName}

// TestEnsure_Hibernated sends no request for a hibernated shoot, unless it is being deleted: then
// cloud-controller-manager and the CSI driver delete load balancers and volumes, and need credentials that
// are still valid.
func TestEnsure_Hibernated(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason  string
		deleted bool
		want    []string
	}{
		"Hibernated": {"it is reconciled every two seconds", false, nil},
		"Deleted":    {"gardenlet wakes it up", true, all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a := newAccounts(t)
			cluster := newCluster()
			cluster.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}

			if tc.deleted {
				cluster.Shoot.DeletionTimestamp = &metav1.Time{}
			}

			require.NoError(t, a.ensure(t.Context(), logr.Discard(), newControlPlane(), cluster))
			require.Equal(t, tc.want, a.replaced(t), tc.reason)
		})
	}
}

// TestRenewal_Unhealthy replaces rejected tokens as soon as the health check has reported them, although
// none of them is due for renewal.
func TestRenewal_Unhealthy(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		status gardencorev1beta1.ConditionStatus
		want   []string
	}{"Unhealthy": {gardencorev1beta1.ConditionFalse, all}, "Healthy": {gardencorev1beta1.ConditionTrue, nil}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cp := newControlPlane()
			cp.Status.Conditions = []gardencorev1beta1.Condition{{Type: gardencorev1beta1.ShootControlPlaneHealthy, Status: tc.status}}
			a := newAccounts(t, cp, clusterObject(t))

			provider, err := a.newProviderCluster(t.Context(), nil, corev1.SecretReference{})
			require.NoError(t, err)

			for _, i := range identities {
				require.NoError(t, provider.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: namespace + "-" + i.Program}}))
			}

			result, err := (&renewal{accounts: a}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cp)})
			require.NoError(t, err)
			require.Positive(t, result.RequeueAfter)
			require.Equal(t, tc.want, a.replaced(t))

			if tc.want != nil {
				require.LessOrEqual(t, result.RequeueAfter, unhealthyPeriod, "the next health check may report nothing else")
			}
		})
	}
}

// TestChanges ignores the time of a health check, which the library writes with each of its results.
func TestChanges(t *testing.T) {
	t.Parallel()

	condition := func(cp *extensionsv1alpha1.ControlPlane) *gardencorev1beta1.Condition {
		return &cp.Status.Conditions[0]
	}

	for name, tc := range map[string]struct {
		reason string
		change func(*extensionsv1alpha1.ControlPlane)
		want   bool
	}{
		"Checked": {"the result is the same", func(cp *extensionsv1alpha1.ControlPlane) {
			cp.ResourceVersion = "2"
			cp.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "extension"}}
			condition(cp).LastUpdateTime = metav1.Now()
		}, false},
		"Unhealthy": {"a token may have been rejected", func(cp *extensionsv1alpha1.ControlPlane) {
			condition(cp).Status = gardencorev1beta1.ConditionFalse
		}, true},
		"OtherError": {"a token may have been rejected, too", func(cp *extensionsv1alpha1.ControlPlane) {
			condition(cp).Message = "another"
		}, true},
		"Reconciled": {"the first tokens were requested", func(cp *extensionsv1alpha1.ControlPlane) {
			cp.Status.LastOperation = &gardencorev1beta1.LastOperation{State: gardencorev1beta1.LastOperationStateSucceeded}
		}, true},
		"Spec": {"it may have other credentials", func(cp *extensionsv1alpha1.ControlPlane) { cp.Generation = 2 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			before := newControlPlane()
			before.Status.Conditions = []gardencorev1beta1.Condition{{Type: gardencorev1beta1.ShootControlPlaneHealthy, Status: gardencorev1beta1.ConditionTrue}}

			after := before.DeepCopy()
			tc.change(after)

			require.Equal(t, tc.want, changes(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), tc.reason)
		})
	}
}

// TestRenewal_Copies lets copies follow the credentials of the shoot within a minute, also if gardenlet renews these
// long before they are due, for example for another WorkloadIdentity.
func TestRenewal_Copies(t *testing.T) {
	t.Parallel()

	const renewTimestamp = "workloadidentity.security.gardener.cloud/token-renew-timestamp"

	cp := newControlPlane()
	a := newAccounts(t, cp, clusterObject(t))
	due := time.Now().Add(12 * time.Hour)

	change(t, a.seed, "cloudprovider", func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{renewTimestamp: due.Format(time.RFC3339)}
		secret.Labels = map[string]string{
			"security.gardener.cloud/purpose":                   "workload-identity-token-requestor",
			"workloadidentity.security.gardener.cloud/provider": "kubevirt",
		}
		secret.Data["token"] = []byte("new")
	})

	for _, program := range all {
		change(t, a.seed, identity.SecretName(program), func(secret *corev1.Secret) {
			secret.Annotations = map[string]string{"kubevirt.provider.extensions.gardener.cloud/copied-token-renewed-at": due.Format(time.RFC3339)}
		})
	}

	reconciled := func() []string {
		result, err := (&renewal{accounts: a}).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cp)})
		require.NoError(t, err)
		require.Positive(t, result.RequeueAfter)
		require.LessOrEqual(t, result.RequeueAfter, time.Minute)

		return a.replaced(t)
	}

	require.Empty(t, reconciled(), "gardenlet has not renewed them")

	change(t, a.seed, "cloudprovider", func(secret *corev1.Secret) {
		secret.Annotations[renewTimestamp] = due.Add(-time.Hour).Format(time.RFC3339)
	})
	require.Equal(t, all, reconciled())
	require.Equal(t, all, reconciled(), "they remain copies")
}

func change(t *testing.T, seed client.Client, name string, mutate func(*corev1.Secret)) {
	t.Helper()

	secret := &corev1.Secret{}
	require.NoError(t, seed.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret))
	mutate(secret)
	require.NoError(t, seed.Update(t.Context(), secret))
}

// clusterObject returns the Cluster of the shoot in the seed.
func clusterObject(t *testing.T) *extensionsv1alpha1.Cluster {
	t.Helper()

	shoot := newCluster().Shoot
	shoot.TypeMeta = metav1.TypeMeta{APIVersion: gardencorev1beta1.SchemeGroupVersion.String(), Kind: "Shoot"}

	encoded, err := json.Marshal(shoot)
	require.NoError(t, err)

	return &extensionsv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       extensionsv1alpha1.ClusterSpec{Shoot: runtime.RawExtension{Raw: encoded}},
	}
}
