// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"os"
	"strings"
	"testing"

	"github.com/gardener/gardener/pkg/api/core/validation"
	operatorvalidation "github.com/gardener/gardener/pkg/api/operator/v1alpha1/validation"
	"github.com/gardener/gardener/pkg/apis/core"
	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/utils/gardener/operator"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestExtension validates the registration for gardener-operator as gardener-operator's webhook does.
func TestExtension(t *testing.T) {
	t.Parallel()
	require.Empty(t, operatorvalidation.ValidateExtension(extension(t)))
}

// TestControllerRegistration validates the registration for gardens without gardener-operator as
// gardener-apiserver does, and requires that it is what gardener-operator creates.
func TestControllerRegistration(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile("controller-registration.yaml")
	require.NoError(t, err)

	first, second, found := strings.Cut(string(content), "\n---\n")
	require.True(t, found)

	deployment := &gardencorev1.ControllerDeployment{}
	registration := &gardencorev1beta1.ControllerRegistration{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), deployment))
	require.NoError(t, yaml.UnmarshalStrict([]byte(second), registration))

	wantRegistration, wantDeployment := operator.ControllerRegistrationForExtension(extension(t))
	wantRegistration.TypeMeta = registration.TypeMeta
	wantDeployment.TypeMeta = deployment.TypeMeta
	require.Equal(t, wantDeployment, deployment)
	require.Equal(t, wantRegistration, registration)

	kubernetes.GardenScheme.Default(registration)
	kubernetes.GardenScheme.Default(deployment)

	internalRegistration := &core.ControllerRegistration{}
	internalDeployment := &core.ControllerDeployment{}
	require.NoError(t, kubernetes.GardenScheme.Convert(registration, internalRegistration, nil))
	require.NoError(t, kubernetes.GardenScheme.Convert(deployment, internalDeployment, nil))
	require.Empty(t, validation.ValidateControllerRegistration(internalRegistration))
	require.Empty(t, validation.ValidateControllerDeployment(internalDeployment))
}

// TestReferences requires the registration to refer to all charts in the version of the repository.
func TestReferences(t *testing.T) {
	t.Parallel()

	version, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)

	deployment := extension(t).Spec.Deployment

	for path, chart := range map[string]*gardencorev1.OCIRepository{
		charts.ExtensionPath:            deployment.ExtensionDeployment.Helm.OCIRepository,
		charts.AdmissionRuntimePath:     deployment.AdmissionDeployment.RuntimeCluster.Helm.OCIRepository,
		charts.AdmissionApplicationPath: deployment.AdmissionDeployment.VirtualCluster.Helm.OCIRepository,
	} {
		content, err := charts.Installation.ReadFile(path + "/Chart.yaml")
		require.NoError(t, err)

		var metadata struct{ Name string }
		require.NoError(t, yaml.Unmarshal(content, &metadata))

		// A registry names a chart by its metadata.
		require.Equal(t, "ghcr.io/gardener/machine-controller-manager-provider-kubevirt/charts/"+metadata.Name+":"+strings.TrimSpace(string(version)), chart.GetURL())
	}
}

func extension(t *testing.T) *operatorv1alpha1.Extension {
	t.Helper()

	content, err := os.ReadFile("extension.yaml")
	require.NoError(t, err)

	e := &operatorv1alpha1.Extension{}
	require.NoError(t, yaml.UnmarshalStrict(content, e))

	return e
}
