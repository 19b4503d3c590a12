// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestCheckLeftovers(t *testing.T) {
	t.Parallel()

	in := &scope{classes: []*class{classOf(t, `{"spec":{"template":{"spec":{}}}}`)}, now: time.Now()}
	r := readerOn(t)
	client, ok := r.clients.Metadata.(*metadatafake.FakeMetadataClient)
	require.True(t, ok)

	add := func(of kind, name, cluster string, deleted time.Duration) {
		object := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: of.resource.GroupVersion().String(), Kind: of.name},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:  "machines",
				Name:       name,
				Labels:     map[string]string{v1alpha1.TagCluster: cluster},
				Finalizers: []string{"snapshot.storage.kubernetes.io/pvc-as-source-protection"},
			},
		}
		if deleted > 0 {
			object.DeletionTimestamp = ptr.To(metav1.NewTime(in.now.Add(-deleted)))
		}

		require.NoError(t, client.Tracker().Create(of.resource, object, "machines"))
	}

	add(kindClaim, "left", "shoot", 3*time.Hour)
	add(kindClaim, "left-longer", "shoot", 4*time.Hour)
	add(kindClaim, "live", "shoot", 0)
	add(kindClaim, "recent", "shoot", time.Minute)
	add(kindClaim, "other", "another-shoot", 3*time.Hour)
	add(kindVolume, "live", "shoot", 0)

	got := checkLeftovers(t.Context(), r, in)
	require.Len(t, got, 2)
	require.Equal(t, Warning, got[0].Level)
	require.Equal(t, "have been in deletion for too long, and count against quotas: "+
		"left-longer (for 4h, held by snapshot.storage.kubernetes.io/pvc-as-source-protection); "+
		"left (for 3h, held by snapshot.storage.kubernetes.io/pvc-as-source-protection)", got[0].Message)
	require.Contains(t, got[0].Remedy, "kubectl --namespace machines describe persistentvolumeclaims left-longer")
	require.Equal(t, OK, got[1].Level)
}
