// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"testing"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// The admission runs with two clusters in the tests of test/integration. This file has the values that are
// not used there.

// TestInstallation_WebhookURL requires the webhooks in the virtual garden cluster to have the address of the Service in
// the runtime cluster, which has the API server of the virtual garden cluster.
func TestInstallation_WebhookURL(t *testing.T) {
	t.Parallel()

	for _, values := range []string{"", "admission-runtime-operator"} {
		rendered := render(t, charts.AdmissionRuntimePath, values)

		service, ok := rendered["Service gardener-extension-admission-kubevirt"].(*corev1.Service)
		require.True(t, ok)

		args := flagsOf(deploymentIn(t, rendered))
		registered := extensionswebhook.BuildClientConfigFor("validate", "", "", false, 0, args["webhook-config-mode"], args["webhook-config-url"], nil)
		require.NotNil(t, registered.URL)

		address, err := url.Parse(*registered.URL)
		require.NoError(t, err)
		require.Equal(t, service.Name+"."+service.Namespace, address.Hostname())
		require.Equal(t, fmt.Sprint(service.Spec.Ports[0].Port), cmp.Or(address.Port(), "443"), values)
	}
}

// TestInstallation_WebhookOwner requires the namespace of the Extension to own the webhooks.
func TestInstallation_WebhookOwner(t *testing.T) {
	t.Parallel()

	operator := flagsOf(deploymentIn(t, render(t, charts.AdmissionRuntimePath, "admission-runtime-operator")))
	require.Equal(t, "extension-provider-kubevirt", operator["webhook-config-owner-namespace"])

	require.NotContains(t, flagsOf(deploymentIn(t, render(t, charts.AdmissionRuntimePath, ""))), "webhook-config-owner-namespace")
}

// TestInstallation_ProjectedKubeconfig requires the value projectedKubeconfig to change the pods as
// gardener-operator does.
func TestInstallation_ProjectedKubeconfig(t *testing.T) {
	t.Parallel()

	injected := deploymentIn(t, render(t, charts.AdmissionRuntimePath, ""))
	require.NoError(t, gardenerutils.InjectGenericGardenKubeconfig(
		injected, "generic-token-kubeconfig", "access-admission-kubevirt", "/var/run/secrets/gardener.cloud"))

	projected := deploymentIn(t, render(t, charts.AdmissionRuntimePath, "admission-runtime-kubeconfig"))
	require.Equal(t, injected.Spec.Template.Spec, projected.Spec.Template.Spec)
}

// TestInstallation_OneCluster requires the webhooks to be called by their Service, and one account to
// have all permissions, if the runtime cluster is also the garden cluster.
func TestInstallation_OneCluster(t *testing.T) {
	t.Parallel()

	rendered := render(t, charts.AdmissionRuntimePath, "admission-one-cluster")
	args := flagsOf(deploymentIn(t, rendered))
	require.Equal(t, "service", args["webhook-config-mode"])
	require.NotContains(t, args, "webhook-config-url")

	permissions := render(t, charts.AdmissionApplicationPath, "admission-one-cluster")
	require.NotContains(t, permissions, "ServiceAccount gardener-extension-admission-kubevirt", "a Helm release cannot adopt it")

	role, ok := rendered["RoleBinding gardener-extension-admission-kubevirt"].(*rbacv1.RoleBinding)
	require.True(t, ok)

	clusterRole, ok := permissions["ClusterRoleBinding "+clusterName].(*rbacv1.ClusterRoleBinding)
	require.True(t, ok)
	require.Equal(t, role.Subjects, clusterRole.Subjects)
	require.Equal(t, role.Subjects[0].Name, deploymentIn(t, rendered).Spec.Template.Spec.ServiceAccountName)
}

// flagsOf returns the flags of a Deployment's first container.
func flagsOf(deployment *appsv1.Deployment) map[string]string {
	flags := map[string]string{}

	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}

	return flags
}
