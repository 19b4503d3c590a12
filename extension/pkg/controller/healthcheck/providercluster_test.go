// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// providerCase is a provider cluster, and what its check reports.
type providerCase struct {
	reason string
	// change are the responses that differ from those of a healthy provider cluster.
	change server
	// texts are in the result; empty if the provider cluster is healthy.
	texts []string
	code  gardencorev1beta1.ErrorCode
}

func providerCases() map[string]providerCase {
	unauthorized := status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	unavailable := kubevirtv1.KubeVirtCondition{Type: kubevirtv1.KubeVirtConditionAvailable, Status: corev1.ConditionFalse, Message: "virt-api is not ready"}

	return map[string]providerCase{
		"Healthy": {reason: "CDI's operator reports no condition yet"},
		"ExpiredCredentials": {
			reason: "the API server refuses the token",
			change: server{machinesPath: unauthorized},
			texts:  []string{"replace the credentials of the Shoot"},
			code:   gardencorev1beta1.ErrorInfraUnauthenticated,
		},
		"NoPermissions": {
			reason: "the account may not list machines",
			change: server{machinesPath: forbidden("virtualmachines.kubevirt.io")},
			texts:  []string{"cannot list resource", "extension/kubernetes/provider-namespace"},
			code:   gardencorev1beta1.ErrorInfraUnauthorized,
		},
		"NoKubeVirt": {
			reason: "its kinds do not exist",
			change: server{machinesPath: status(http.StatusNotFound, metav1.StatusReasonNotFound, "")},
			texts:  []string{"does not have KubeVirt; install it"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"NoCDI": {
			reason: "its kinds do not exist",
			change: server{volumesPath: status(http.StatusNotFound, metav1.StatusReasonNotFound, "")},
			texts:  []string{"does not have CDI; install it"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"KubeVirtNotAvailable": {
			reason: "its operator reports it",
			change: server{kubeVirtsPath: kubeVirtWith(unavailable)},
			texts:  []string{"KubeVirt of the provider cluster is not available: virt-api is not ready; repair it"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"CDINotAvailable": {
			reason: "its operator reports the cause as Degraded",
			change: server{cdisPath: failedCDI()},
			texts:  []string{"CDI of the provider cluster is not available: no ServiceAccount"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"BothNotAvailable": {
			reason: "both are reported",
			change: server{kubeVirtsPath: kubeVirtWith(unavailable), cdisPath: failedCDI()},
			texts:  []string{"KubeVirt of the provider", "CDI of the provider"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
		"StateNotReadable": {
			reason: "the permission is optional",
			change: server{kubeVirtsPath: forbidden("kubevirts.kubevirt.io"), cdisPath: forbidden("cdis.cdi.kubevirt.io")},
		},
		"Overloaded": {
			reason: "another error is no missing permission",
			change: server{cdisPath: status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "service unavailable")},
			texts:  []string{"read the state of CDI", "check its API server"},
			code:   gardencorev1beta1.ErrorRetryableInfraDependencies,
		},
	}
}

// lostCases are shoots whose machines run, but could not be replaced.
func lostCases() map[string]providerCase {
	quota := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "machines"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: apiresource.MustParse("1")}},
	}

	return map[string]providerCase{
		"Quota": {
			reason: "it was lowered",
			change: server{quotasPath: &corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{quota}}},
			texts:  []string{"spec.provider.workers: ", "ResourceQuota machines of the provider cluster allows 1; reduce the minimum, or raise the quota"},
			code:   gardencorev1beta1.ErrorInfraQuotaExceeded,
		},
		"LastNode": {
			reason: "its zone has no other",
			change: server{nodesPath: &corev1.NodeList{}},
			texts:  []string{"spec.provider.workers[0].zones[0]: ", "no node in region"},
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
		},
		"StorageClass": {
			reason: "it was deleted",
			change: server{classPath: status(http.StatusNotFound, metav1.StatusReasonNotFound, "")},
			texts:  []string{"spec.provider.workers[0].volume.type: ", "no StorageClass nvme"},
			code:   gardencorev1beta1.ErrorRetryableConfigurationProblem,
		},
		"Permissions": {
			reason: "the account lost them",
			change: server{reviewsPath: reviewed(false)},
			texts:  []string{"spec.credentialsBindingName: ", "may not create virtualmachines"},
			code:   gardencorev1beta1.ErrorInfraUnauthorized,
		},
		"NotReadable": {
			reason: "these permissions are optional",
			change: server{
				quotasPath: forbidden("resourcequotas"),
				nodesPath:  forbidden("nodes"),
				classPath:  forbidden("storageclasses.storage.k8s.io"),
				rulesPath:  forbidden("selfsubjectrulesreviews.authorization.k8s.io"),
			},
		},
	}
}

// TestProviderClusterCheck_Lost reports what the provider cluster does not have any more: the Infrastructure of a shoot whose
// machines run is reconciled nevertheless.
func TestProviderClusterCheck_Lost(t *testing.T) {
	t.Parallel()

	for name, tc := range lostCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			provider := healthyProvider()
			maps.Copy(provider, tc.change)

			requireProvider(t, newSeed(t, provider.start(t)), tc)
		})
	}
}

func TestProviderClusterCheck(t *testing.T) {
	t.Parallel()

	for name, tc := range providerCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			provider := healthyProvider()
			maps.Copy(provider, tc.change)

			requireProvider(t, newSeed(t, provider.start(t)), tc)
		})
	}
}

// TestProviderClusterCheck_Unusable checks an invalid kubeconfig, and an API server that refuses
// connections.
func TestProviderClusterCheck_Unusable(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		providerCase

		kubeconfig string
	}{
		"InvalidKubeconfig": {
			providerCase{texts: []string{"CredentialsRefused"}, code: gardencorev1beta1.ErrorInfraUnauthenticated}, token,
		},
		"NothingListens": {
			providerCase{texts: []string{"connection refused", "check its API server"}, code: gardencorev1beta1.ErrorRetryableInfraDependencies},
			kubeconfig("https://127.0.0.1:1", ""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireProvider(t, newSeed(t, tc.kubeconfig), tc.providerCase)
		})
	}
}

// requireProvider checks the result for a provider cluster.
func requireProvider(t *testing.T, seed client.Reader, want providerCase) {
	t.Helper()

	result, err := (&providerClusterCheck{seed: seed, newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
	require.NoError(t, err)
	require.NotContains(t, result.Detail, token)

	if len(want.texts) == 0 {
		require.Equal(t, healthy(), result, want.reason)

		return
	}

	require.Equal(t, gardencorev1beta1.ConditionFalse, result.Status, want.reason)
	require.Equal(t, []gardencorev1beta1.ErrorCode{want.code}, result.Codes, result.Detail)

	for _, text := range want.texts {
		require.Contains(t, result.Detail, text)
	}
}

// TestProviderClusterCheck_SeedErrors requires errors of the seed not to be reported as errors of the
// provider cluster.
func TestProviderClusterCheck_SeedErrors(t *testing.T) {
	t.Parallel()

	seed := newSeed(t, "")
	require.NoError(t, seed.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: "cloudprovider"}}))

	_, err := (&providerClusterCheck{seed: seed, newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
	require.True(t, apierrors.IsNotFound(err), err)
}

// TestProviderClusterCheck_NoResponse bounds the duration of the checks: a provider cluster that never
// responds must not delay those of other shoots.
func TestProviderClusterCheck_NoResponse(t *testing.T) {
	t.Parallel()

	begun := time.Now()
	seed := newSeed(t, "")
	provider := func(ctx context.Context, _ client.Reader, _ corev1.SecretReference) (*providercluster.Cluster, error) {
		deadline, _ := ctx.Deadline()
		require.WithinRange(t, deadline, begun.Add(timeLimit), time.Now().Add(timeLimit))

		return nil, providercluster.ErrCredentials
	}

	_, err := (&providerClusterCheck{seed: seed, newProviderCluster: provider}).Check(t.Context(), request)
	require.NoError(t, err)

	_, err = (&machinesCheck{seed: seed, newProviderCluster: provider}).Check(t.Context(), request)
	require.NoError(t, err)

	require.Less(t, timeLimit, MinimumPeriod)
}

// TestProviderClusterCheck_LateResponse checks a provider cluster that accepts requests and does not respond in time.
func TestProviderClusterCheck_LateResponse(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()

	silent := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ctx.Done() }))
	defer silent.Close()

	check := &providerClusterCheck{seed: newSeed(t, kubeconfigOf(silent)), newProviderCluster: (&providercluster.Clients{}).New}

	result, err := check.Check(ctx, request)
	require.NoError(t, err)
	require.Equal(t, gardencorev1beta1.ConditionFalse, result.Status)
	require.Contains(t, result.Detail, "no response in time")
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies}, result.Codes)
}

// TestCheck_Busy checks a provider cluster for which the extension does not wait, because of others: its
// state is not known.
func TestCheck_Busy(t *testing.T) {
	t.Parallel()

	busy := func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
		return &providercluster.Cluster{Client: fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return providercluster.ErrBusy
			},
		}).Build()}, nil
	}

	_, err := (&providerClusterCheck{seed: newSeed(t, ""), newProviderCluster: busy}).Check(t.Context(), request)
	require.ErrorIs(t, err, providercluster.ErrBusy)

	result, err := (&machinesCheck{seed: newSeed(t, ""), newProviderCluster: busy}).Check(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, healthy(), result, "the Infrastructure reports it")
}

// TestProviderClusterCheck_Busy checks a provider cluster that the extension stops waiting for in the
// middle of a check: no finding does not mean that it is healthy.
func TestProviderClusterCheck_Busy(t *testing.T) {
	t.Parallel()

	for name, matches := range map[string]func(object any) bool{
		"storage classes": func(object any) bool { _, is := object.(*storagev1.StorageClass); return is },
		"zones":           func(object any) bool { _, is := object.(*corev1.NodeList); return is },
		"quotas":          func(object any) bool { _, is := object.(*corev1.ResourceQuotaList); return is },
		"permissions":     func(object any) bool { _, is := object.(*authorizationv1.SelfSubjectAccessReview); return is },
	} {
		refuse := func(object any) error {
			if matches(object) {
				return providercluster.ErrBusy
			}

			return nil
		}
		objects := []client.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "nvme"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}

		busy := func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
			return &providercluster.Cluster{Client: busyProvider(refuse, objects...), Namespace: namespace}, nil
		}

		result, err := (&providerClusterCheck{seed: newSeed(t, ""), newProviderCluster: busy}).Check(t.Context(), request)
		require.ErrorIs(t, err, providercluster.ErrBusy, "%s: %v", name, result)
	}
}

// busyProvider is a healthy provider cluster with objects. It returns the error of refuse for an object.
func busyProvider(refuse func(object any) error, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return cmp.Or(refuse(object), c.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			return cmp.Or(refuse(list), c.List(ctx, list))
		},
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			if review, isReview := object.(*authorizationv1.SelfSubjectAccessReview); isReview {
				review.Status.Allowed = true
			}

			return refuse(object)
		},
	}).Build()
}

func TestUnavailability(t *testing.T) {
	t.Parallel()

	available := metav1.Condition{Type: "Available", Status: metav1.ConditionTrue}
	unavailable := metav1.Condition{Type: "Available", Status: metav1.ConditionFalse, Message: "no ServiceAccount"}

	for name, tc := range map[string]struct {
		reason        string
		installations [][]metav1.Condition
		cause         string
	}{
		"None":      {reason: "the operator is not installed, or has not begun"},
		"Available": {reason: "one installation", installations: [][]metav1.Condition{{available}}},
		"Silent":    {reason: "no condition is no report", installations: [][]metav1.Condition{{}}},
		"Duplicate": {reason: "another installation is available", installations: [][]metav1.Condition{{unavailable}, {available}}},
		"False":     {reason: "the operator's message", installations: [][]metav1.Condition{{unavailable}}, cause: "no ServiceAccount"},
		"Unknown":   {reason: "not known to be available", installations: [][]metav1.Condition{{{Type: "Available", Status: metav1.ConditionUnknown}}}, cause: "its operator reports no cause"},
		"Degraded": {
			reason:        "CDI's operator reports the cause here",
			installations: [][]metav1.Condition{{{Type: "Available", Status: metav1.ConditionFalse}, {Type: "Degraded", Status: metav1.ConditionTrue, Message: "duplicate"}}},
			cause:         "duplicate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cause, found := unavailability(tc.installations)
			require.Equal(t, tc.cause != "", found, tc.reason)

			if found {
				require.Equal(t, tc.cause, cause, tc.reason)
			}
		})
	}
}

// TestProviderClusterCheck_BoundsTexts requires that a provider cluster cannot fill the status of a
// Shoot.
func TestProviderClusterCheck_BoundsTexts(t *testing.T) {
	t.Parallel()

	provider := healthyProvider()
	provider[kubeVirtsPath] = kubeVirtWith(kubevirtv1.KubeVirtCondition{
		Type:    kubevirtv1.KubeVirtConditionAvailable,
		Status:  corev1.ConditionFalse,
		Message: strings.Repeat("ä", 1<<17),
	})

	result, err := (&providerClusterCheck{seed: newSeed(t, provider.start(t)), newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
	require.NoError(t, err)
	require.Less(t, len(result.Detail), 2*maxExcerpt)
}
