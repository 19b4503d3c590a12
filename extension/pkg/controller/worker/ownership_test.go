// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// TestGoldenImages_ForeignUID neither uses nor deletes images of a Shoot of another landscape with the same technical
// ID, and does not wait for its machines.
func TestGoldenImages_ForeignUID(t *testing.T) {
	t.Parallel()

	g := guide()
	g.cluster.Shoot.Status.UID = "own"
	images, err := g.delegate(t).goldenImages(t.Context())
	require.NoError(t, err)

	var image *cdiv1beta1.DataVolume
	for _, image = range images {
		require.Equal(t, "own", image.Labels[providerspec.TagShootUID], "as the driver renders it: machines have the tag")
	}

	image.Labels[providerspec.TagShootUID] = "other"
	machine := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: providerNamespace,
		Name:      "m",
		Labels:    map[string]string{providerspec.TagCluster: seedNamespace, providerspec.TagShootUID: "other"},
	}}

	d := g.delegate(t, image, machine)
	require.ErrorContains(t, d.createImages(t.Context()), "belongs to another Shoot with the technical ID "+seedNamespace)

	d.worker.DeletionTimestamp = &metav1.Time{}
	require.NoError(t, d.PostDeleteHook(t.Context()))

	provider, err := d.providerCluster(t.Context())
	require.NoError(t, err)
	require.NoError(t, provider.Get(t.Context(), client.ObjectKeyFromObject(image), image), "it remains")
}

// TestHash_ShootUID replaces no machines when the tag is added.
func TestHash_ShootUID(t *testing.T) {
	t.Parallel()

	names := func(g *setting) (all []string) {
		w, err := g.delegate(t).generated(t.Context())
		require.NoError(t, err)

		for _, c := range w.classes {
			all = append(all, c.object.Name)
		}

		return all
	}

	before := guide()
	after := guide()
	after.cluster.Shoot.Status.UID = "own"
	require.Equal(t, names(before), names(after))
}
