// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

// TestOwns_GoldenImage requires the selectors of a machine, and of a shoot's machines, never to select
// an image.
func TestOwns_GoldenImage(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node","team":"blue"},"zone":"z",
		"rootVolume":{"source":{"http":{"url":"https://h/i","checksum":"md5:0","insecureSkipVerify":true}},"annotations":{"a":"b"},"serviceAccountName":"importer",
		"storage":{"resources":{"requests":{"storage":"20Gi"}}}},"goldenImage":{"size":"10Gi"}}`))
	image, err := in.Image().DataVolume("machines")
	require.NoError(t, err)

	require.NotContains(t, image.Labels, v1alpha1.TagRole)
	require.NotContains(t, image.Labels, render.LabelMachine)
	require.NotContains(t, image.Labels, "team")
	require.False(t, render.Owns(in.Identity(), image.Labels))
	require.Equal(t, "true", image.Annotations["cdi.kubevirt.io/storage.bind.immediate.requested"])
	require.Equal(t, "b", image.Annotations["a"])
	require.Equal(t, "importer", image.Spec.ServiceAccountName)
	require.Equal(t, "10Gi", image.Spec.Storage.Resources.Requests.Storage().String())

	vm := virtualMachine(t, in)
	disk := vm.Spec.DataVolumeTemplates[0]

	require.NotContains(t, disk.Annotations, "cdi.kubevirt.io/storage.bind.immediate.requested", "a machine's disk is made where the machine is")
	require.Equal(t, cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "machines", Name: image.Name}}, *disk.Spec.Source)
	require.Empty(t, disk.Spec.ServiceAccountName, "KubeVirt refuses it, and only an import uses it")
	require.Equal(t, "20Gi", disk.Spec.Storage.Resources.Requests.Storage().String(), "the clone grows")
	require.Equal(t, image.Name, disk.Labels[v1alpha1.LabelGoldenImage])
	require.Equal(t, image.Name, vm.Labels[v1alpha1.LabelGoldenImage])
	require.NotContains(t, vm.Spec.Template.ObjectMeta.Labels, v1alpha1.LabelGoldenImage, "the pod does not need it")
	require.True(t, *in.Spec.RootVolume.Source.HTTP.InsecureSkipVerify, "the input stays as it is")
}

func TestImageInTermsOfProviderSpec(t *testing.T) {
	t.Parallel()

	for message, want := range map[string]string{
		`strict decoding error: unknown field "spec.source.http.insecureSkipVerify"`: `strict decoding error: unknown field "providerSpec.rootVolume.source.http.insecureSkipVerify"`,
		`metadata.annotations: Invalid value`:                                        `metadata.annotations: Invalid value`,
		`see https://h/spec.source`:                                                  `see https://h/spec.source`,
	} {
		require.Equal(t, want, render.ImageInTermsOfProviderSpec(message))
	}
}
