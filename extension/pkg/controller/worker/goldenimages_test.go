// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// imagesOfShoot returns the names of the golden images in the provider cluster.
func imagesOfShoot(t *testing.T, d *delegate) []string {
	t.Helper()

	found := &cdiv1beta1.DataVolumeList{}
	require.NoError(t, d.provider.List(t.Context(), found, client.InNamespace(providerNamespace)))

	var names []string
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}

	return names
}

// imageOf returns the golden image of the first pool.
func imageOf(t *testing.T, s *setting) *cdiv1beta1.DataVolume {
	t.Helper()

	images, err := s.delegate(t).goldenImages(t.Context())
	require.NoError(t, err)
	require.Len(t, images, 1)

	for _, image := range images {
		return image
	}

	return nil
}

// TestGoldenImages_PoolWithoutMachines requires the image to exist before cluster-autoscaler needs it.
func TestGoldenImages_PoolWithoutMachines(t *testing.T) {
	t.Parallel()

	s := guide()
	s.pool().Minimum = 0
	s.pool().Zones = []string{"a", "b"}

	d := s.delegate(t)
	require.NoError(t, d.PreReconcileHook(t.Context()))

	names := imagesOfShoot(t, d)
	require.Len(t, names, 1, "both zones use one image")

	want, err := goldenimage.Source{Spec: s.specs(t)[0], Architecture: "amd64"}.Name()
	require.NoError(t, err)
	require.Equal(t, want, names[0], "the driver finds the image by this name")

	require.NoError(t, d.PreReconcileHook(t.Context()), "the image exists")
}

func TestGoldenImages_HibernatedShoot(t *testing.T) {
	t.Parallel()

	s := guide()
	s.cluster.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}

	d := s.delegate(t)
	require.NoError(t, d.PreReconcileHook(t.Context()))
	require.Nil(t, d.provider, "no request was sent")
}

// TestDeleteImages_Unused keeps the images of classes and of virtual machines, and objects that are
// not images of the shoot.
func TestDeleteImages_Unused(t *testing.T) {
	t.Parallel()

	old := guide()
	old.profile.MachineImages[0].Versions[0].SourceURL = "https://images.example.com/old"

	cloned := guide()
	cloned.profile.MachineImages[0].Versions[0].SourceURL = "https://images.example.com/cloned"

	foreign := guide()
	foreign.cluster.Shoot.Status.TechnicalID = "shoot--garden-dev--other"

	current := imageOf(t, guide())
	unused := imageOf(t, old)
	used := imageOf(t, cloned)
	others := imageOf(t, foreign)
	disk := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{
		Namespace: providerNamespace,
		Name:      "m-root-disk",
		Labels: map[string]string{
			providerspec.TagCluster: seedNamespace, providerspec.TagRole: "node", providerspec.LabelGoldenImage: unused.Name,
		},
	}}
	machine := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: providerNamespace,
		Name:      "m",
		Labels: map[string]string{
			providerspec.TagCluster: seedNamespace, providerspec.LabelGoldenImage: used.Name,
		},
	}}

	d := guide().delegate(t, current, unused, used, others, disk, machine)
	require.NoError(t, d.PostReconcileHook(t.Context()))
	require.ElementsMatch(t, []string{current.Name, used.Name, others.Name, disk.Name}, imagesOfShoot(t, d))

	now := metav1.Now()
	d.worker.DeletionTimestamp = &now
	require.ErrorContains(t, d.PostDeleteHook(t.Context()), "remain in namespace "+providerNamespace+" of the provider cluster: m; delete them")

	require.NoError(t, d.provider.Delete(t.Context(), machine))
	require.NoError(t, d.PostDeleteHook(t.Context()))
	require.ElementsMatch(t, []string{others.Name, disk.Name}, imagesOfShoot(t, d), "nothing of the shoot is left, except what the driver deletes")
}
