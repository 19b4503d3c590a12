// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"maps"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// withoutEvacuation is a provider cluster whose account has all permissions but those of evacuation.
func withoutEvacuation() server {
	rules := func(group string, resources ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{group}, Resources: resources}
	}

	provider := healthyProvider()
	maps.Copy(provider, server{
		reviewsPath: reviewed(false),
		rulesPath: &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{ResourceRules: []authorizationv1.ResourceRule{
			rules("", "*"), rules("cdi.kubevirt.io", "*"), rules("subresources.kubevirt.io", "*"), rules("kubevirt.io", "virtualmachines", "virtualmachineinstances"),
		}}},
	})

	return provider
}

// TestDrainsCheck warns of drains if the account lacks the permissions for evacuation. The shoot is healthy: the check of the
// provider cluster has another condition.
func TestDrainsCheck(t *testing.T) {
	t.Parallel()

	seed := newSeed(t, withoutEvacuation().start(t))

	result, err := (&drainsCheck{seed: seed, newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, gardencorev1beta1.ConditionProgressing, result.Status)
	require.Greater(t, *result.ProgressingThreshold, 10*365*24*time.Hour, "it would become False")
	require.Contains(t, result.Detail, "may not list virtualmachineinstancemigrations")
	require.Contains(t, result.Detail, "apply extension/kubernetes/provider-namespace")

	result, err = (&providerClusterCheck{seed: seed, newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, healthy(), result)
}

// TestDrainsCheck_Healthy reports neither accounts with the permissions, nor provider clusters that cannot be read.
func TestDrainsCheck_Healthy(t *testing.T) {
	t.Parallel()

	for name, kubeconfig := range map[string]string{"Permitted": healthyProvider().start(t), "NoKubeconfig": "", "NothingListens": kubeconfig("https://127.0.0.1:1", "")} {
		result, err := (&drainsCheck{seed: newSeed(t, kubeconfig), newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
		require.NoError(t, err, name)
		require.Equal(t, healthy(), result, name)
	}
}

// TestLacksEvacuation compares the arguments of the driver with the status of the Infrastructure.
func TestLacksEvacuation(t *testing.T) {
	t.Parallel()

	const evacuates = `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureStatus", "evacuation": true}`

	for name, tc := range map[string]struct {
		reason, status string
		args           []string
		warns          bool
	}{
		"Evacuates": {reason: "both agree", status: evacuates, args: []string{"--evacuation=true"}},
		"Neither":   {reason: "both agree"},
		"Without":   {reason: "machines wait for it", status: evacuates, args: []string{"--v=3"}, warns: true},
	} {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: "machine-controller-manager"}}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "machine-controller-manager"}, {Name: "driver", Args: tc.args}}

		infra := &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		if tc.status != "" {
			infra.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(tc.status)}
		}

		require.Equal(t, tc.warns, (&drainsCheck{seed: newSeed(t, "", deployment)}).lacksEvacuation(t.Context(), infra), "%s: %v", name, tc.reason)
		require.False(t, (&drainsCheck{seed: newSeed(t, "")}).lacksEvacuation(t.Context(), infra), "gardenlet reports its Deployments")
	}
}
