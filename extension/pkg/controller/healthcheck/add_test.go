// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"testing"

	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// TestResources checks which condition each kind has. gardenlet ignores other types of conditions.
func TestResources(t *testing.T) {
	t.Parallel()

	conditions := map[string]gardencorev1beta1.ConditionType{}

	for _, r := range resources(newSeed(t, ""), (&providercluster.Clients{}).New, (&providercluster.Clients{}).Accepts) {
		conditions[r.kind] = r.condition

		if r.warning != "" {
			conditions["warnings of "+r.kind] = r.warning
		}
	}

	require.Equal(t, map[string]gardencorev1beta1.ConditionType{
		"ControlPlane":               "ControlPlaneHealthy",
		"Infrastructure":             "ControlPlaneHealthy",
		"warnings of Infrastructure": "ObservabilityComponentsHealthy",
		"Worker":                     "EveryNodeReady",
	}, conditions)
}

// TestResources_ControlPlane checks the three Deployments: each of them alone makes the ControlPlane unhealthy.
func TestResources_ControlPlane(t *testing.T) {
	t.Parallel()

	var names []string

	for _, check := range resources(nil, nil, nil)[0].checks[:3] {
		for _, available := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			for _, name := range []string{"cloud-controller-manager", "csi-driver-controller", "csi-snapshot-controller"} {
				result := checkDeployment(t, check, name, available)
				if result.Status == gardencorev1beta1.ConditionTrue {
					require.Equal(t, corev1.ConditionTrue, available)

					names = append(names, name)
				}
			}
		}
	}

	require.Equal(t, []string{"cloud-controller-manager", "csi-driver-controller", "csi-snapshot-controller"}, names)
}

// checkDeployment returns the result of a check in a seed with only one Deployment.
func checkDeployment(t *testing.T, check healthcheck.HealthCheck, name string, available corev1.ConditionStatus) *healthcheck.SingleCheckResult {
	t.Helper()

	seed := newSeed(t, "", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: name},
		Status:     appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available}}},
	})
	require.True(t, healthcheck.SourceClientInfo(seed, check))
	check.SetLoggerSuffix("kubevirt", "ControlPlane")

	result, err := check.Check(t.Context(), request)
	require.NoError(t, err)

	return result
}
