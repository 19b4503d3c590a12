// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"bytes"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestIsOurs(t *testing.T) {
	t.Parallel()

	for provider, want := range map[string]bool{
		"": true, "kubevirt": true, "kubevirtdriver//127.0.0.1:8080": true, "aws": false, "KubeVirt": false,
	} {
		require.Equal(t, want, machineclass.IsOurs(&v1alpha1.MachineClass{Provider: provider}), provider)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()

	r := validRequest()
	kubeconfig, id, err := machineclass.Access(r.class, r.secret)
	require.NoError(t, err)
	require.Equal(t, "k", string(kubeconfig))
	require.Equal(t, spi.Identity{Cluster: "c", Role: "node"}, id)

	r.class.ProviderSpec.Raw = []byte(`{}`)
	_, _, err = machineclass.Access(r.class, r.secret)
	require.ErrorIs(t, err, spi.ErrInvalid)

	r.class.Provider = "aws"
	_, _, err = machineclass.Access(r.class, r.secret)
	require.ErrorIs(t, err, spi.ErrInvalid)
}

func TestKubeconfig_Missing(t *testing.T) {
	t.Parallel()

	r := validRequest()
	r.class.SecretRef = &corev1.SecretReference{Namespace: "shoot", Name: "user-data"}
	r.class.CredentialsSecretRef = &corev1.SecretReference{Namespace: "shoot", Name: "cloudprovider"}
	delete(r.secret.Data, "kubeconfig")

	_, err := machineclass.Kubeconfig(r.class, r.secret)
	require.ErrorIs(t, err, spi.ErrInvalid)
	require.ErrorContains(t, err, "Secret shoot/user-data or shoot/cloudprovider does not exist or has no key kubeconfig")
}

func TestImage(t *testing.T) {
	t.Parallel()

	r := validRequest()
	image := machineclass.Image(r.class)
	require.Equal(t, "arm64", image.Architecture)
	require.Equal(t, "image", image.Spec.RootVolume.Source.PVC.Name)

	r.class.NodeTemplate.Architecture = ptr.To("vax")
	require.Nil(t, machineclass.Image(r.class))

	r.class.NodeTemplate = nil
	require.NotNil(t, machineclass.Image(r.class), "KubeVirt chooses the architecture")

	wrong := bytes.Replace(r.class.ProviderSpec.Raw, []byte(`"zone":"z"`), []byte(`"zone":7,"misspelt":1,"cloudInit":{"networkData":"\t"}`), 1)
	r.class.ProviderSpec.Raw = wrong
	require.Equal(t, "image", machineclass.Image(r.class).Spec.RootVolume.Source.PVC.Name, "errors elsewhere do not change the image")

	r.class.ProviderSpec.Raw = []byte(`[`)
	require.Nil(t, machineclass.Image(r.class))
}
