// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/controllermanager/controller/namespacedcloudprofile"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// garden applies the manifests of the documentation, and returns a client for the garden.
func garden(t *testing.T) client.Client {
	t.Helper()

	applyLandscape(t)

	return theSeed.Garden
}

// createShoot creates a Shoot in the garden.
func createShoot(t *testing.T, name string) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, shoot))

	shoot.Name = name
	shoot.Spec.CredentialsBindingName = ptr.To("core-kubevirt")
	require.NoError(t, garden(t).Create(t.Context(), shoot))

	return shoot
}

// storedShoot creates a Shoot in the garden, and deletes it at the end of the test.
func storedShoot(t *testing.T, name string) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := createShoot(t, name)

	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // That of the test has ended.
		require.NoError(t, theSeed.Garden.Get(ctx, client.ObjectKeyFromObject(shoot), shoot))
		metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
		require.NoError(t, theSeed.Garden.Update(ctx, shoot))
		require.NoError(t, theSeed.Garden.Delete(ctx, shoot))
	})

	return shoot
}

// TestAdmissionOfChanges changes an existing Shoot.
func TestAdmissionOfChanges(t *testing.T) {
	t.Parallel()

	garden := garden(t)
	shoot := storedShoot(t, "changed")

	wrong := shoot.DeepCopy()
	wrong.Spec.Provider.InfrastructureConfig = config(t, "InfrastructureConfig", "namespace: {create: true}")
	err := garden.Update(t.Context(), wrong)
	require.ErrorContains(t, err, "spec.provider.infrastructureConfig.namespace.create")
	require.ErrorContains(t, err, "restore the previous value, or create another Shoot")

	wrong = shoot.DeepCopy()
	wrong.Spec.Provider.Workers[0].ProviderConfig = config(t, "WorkerConfig", "cpu: {core: 2}")
	require.ErrorContains(t, garden.Update(t.Context(), wrong), "spec.provider.workers[0].providerConfig.cpu.core")

	requireOtherCredentials(t, shoot)

	shoot.Spec.Provider.Workers[0].ProviderConfig = config(t, "WorkerConfig", "cpu: {cores: 2}")
	require.NoError(t, garden.Update(t.Context(), shoot))
}

// ownImages returns a NamespacedCloudProfile with an image version of a project.
func ownImages(t *testing.T, providerConfig string) *gardencorev1beta1.NamespacedCloudProfile {
	t.Helper()

	profile := &gardencorev1beta1.NamespacedCloudProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "own-images"},
		Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
			Parent: gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "kubevirt"},
			MachineImages: []gardencorev1beta1.MachineImage{{
				Name: "ubuntu",
				Versions: []gardencorev1beta1.MachineImageVersion{{
					ExpirableVersion: gardencorev1beta1.ExpirableVersion{Version: "24.4.0"},
					CRI:              []gardencorev1beta1.CRI{{Name: "containerd"}},
					Architectures:    []string{"amd64"},
				}},
			}},
		},
	}
	if providerConfig != "" {
		profile.Spec.ProviderConfig = config(t, "CloudProfileConfig", providerConfig)
	}

	return profile
}

// TestNamespacedCloudProfileRefusals refuses what a project cannot offer.
func TestNamespacedCloudProfileRefusals(t *testing.T) {
	t.Parallel()

	garden := garden(t)

	for name, refused := range map[string]struct{ config, field, remedy string }{
		"no source":     {"", "spec.providerConfig.machineImages", "add the source of version 24.4.0 of image ubuntu"},
		"machine types": {"machineImages: []\nmachineTypes: [{name: standard-1}]", "spec.providerConfig.machineTypes[0].name", "use another name"},
		"wrong source":  {`machineImages: [{name: ubuntu, versions: [{version: "24.4.0", sourceURL: example.com}]}]`, "spec.providerConfig.machineImages[ubuntu].versions[24.4.0].sourceURL", "must be a URL"},
		"volumes":       {"machineImages: []\nvolumeClasses: [{name: fast}]", "spec.providerConfig.volumeClasses", "ask the operator to add it there"},
		"version of the CloudProfile": {
			`machineImages: [{name: ubuntu, versions: [{version: "18.4.20210415", sourceURL: "https://example.com/a"}]}]`,
			"spec.providerConfig.machineImages[0].versions[0]", "the CloudProfile kubevirt already has version 18.4.20210415 of image ubuntu",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := garden.Create(t.Context(), ownImages(t, refused.config), client.DryRunAll)
			require.ErrorContains(t, err, refused.field)
			require.ErrorContains(t, err, refused.remedy)
		})
	}
}

// TestNamespacedCloudProfile adds an image of a project to those of its CloudProfile; a Shoot can use it.
func TestNamespacedCloudProfile(t *testing.T) {
	t.Parallel()

	garden := garden(t)
	profile := ownImages(t, `machineImages: [{name: ubuntu, versions: [{version: "24.4.0", sourceURL: "https://example.com/24.img"}]}]`)
	require.NoError(t, garden.Create(t.Context(), profile))
	t.Cleanup(func() { require.NoError(t, garden.Delete(context.WithoutCancel(t.Context()), profile)) })

	// gardener-controller-manager writes the status.
	parent := &gardencorev1beta1.CloudProfile{}
	require.NoError(t, garden.Get(t.Context(), client.ObjectKey{Name: "kubevirt"}, parent))

	before := client.MergeFrom(profile.DeepCopy())
	namespacedcloudprofile.MergeCloudProfiles(profile, parent)
	profile.Status.ObservedGeneration = profile.Generation
	require.NoError(t, garden.Status().Patch(t.Context(), profile, before))

	merged := &api.CloudProfileConfig{}
	require.Empty(t, api.Decode(profile.Status.CloudProfileSpec.ProviderConfig, field.NewPath("status"), merged))
	require.Len(t, merged.MachineImages, 1)
	require.Len(t, merged.MachineImages[0].Versions, 3)
	require.Equal(t, "https://example.com/24.img", merged.MachineImages[0].Versions[2].SourceURL)
	require.NotEmpty(t, merged.VolumeClasses, "the rest of the CloudProfile is kept")

	shoot := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, shoot))

	shoot.Name = "project-image"
	shoot.Spec.CredentialsBindingName = ptr.To("core-kubevirt")
	shoot.Spec.CloudProfile = &gardencorev1beta1.CloudProfileReference{Kind: "NamespacedCloudProfile", Name: profile.Name}
	shoot.Spec.Provider.Workers[0].Machine.Image.Version = ptr.To("24.4.0")

	eventually(t, func(ctx context.Context) (bool, string) { // gardener-apiserver has a cache.
		err := garden.Create(ctx, shoot.DeepCopy(), client.DryRunAll)

		return err == nil, fmt.Sprint(err)
	})
}
