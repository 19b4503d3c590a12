// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testClaim() *corev1.PersistentVolumeClaim {
	mode := corev1.PersistentVolumeBlock
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "ns",
			Name:        "claim",
			UID:         "uid",
			Annotations: map[string]string{provisionerAnnotation: Provisioner},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			VolumeMode:  &mode,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			},
		},
	}
}

func testClass(mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: "class"},
		Provisioner:       Provisioner,
		VolumeBindingMode: &mode,
	}
}

func TestIsWaiting(t *testing.T) {
	t.Parallel()
	immediate := testClass(storagev1.VolumeBindingImmediate)
	first := testClass(storagev1.VolumeBindingWaitForFirstConsumer)

	require.True(t, isWaiting(testClaim(), immediate))
	require.False(t, isWaiting(testClaim(), first), "no pod consumes it yet")

	consumed := testClaim()
	consumed.Annotations[selectedNodeAnnotation] = "node"
	require.True(t, isWaiting(consumed, first))

	foreign := testClaim()
	foreign.Annotations[provisionerAnnotation] = "csi.example.com"
	require.False(t, isWaiting(foreign, immediate))

	populated := testClaim()
	populated.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "VolumeImportSource", Name: "x"}
	require.False(t, isWaiting(populated, immediate), "CDI's populator fills it")

	cloned := testClaim()
	cloned.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: claimKind, Name: "golden"}
	cloned.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: claimKind, Name: "golden"}
	require.True(t, isWaiting(cloned, immediate))
	require.Equal(t, "golden", cloneSource(cloned))
}

func TestRenderVolume(t *testing.T) {
	t.Parallel()
	claim := testClaim()
	class := testClass(storagev1.VolumeBindingImmediate)
	volume := renderVolume(claim, class, nodeAffinity(corev1.LabelTopologyZone, "zone-a"))
	require.Equal(t, "pvc-uid", volume.Name)
	require.Equal(t, claim.UID, volume.Spec.ClaimRef.UID)
	require.Equal(t, claim.Spec.AccessModes, volume.Spec.AccessModes)
	require.Equal(t, claim.Spec.VolumeMode, volume.Spec.VolumeMode)
	require.Equal(t, corev1.PersistentVolumeReclaimDelete, volume.Spec.PersistentVolumeReclaimPolicy)
	require.Equal(t, "class", volume.Spec.StorageClassName)
	term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	require.Equal(t, []string{"zone-a"}, term.Values)

	volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("9Gi")
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	require.Equal(t, "5Gi", requested.String(), "the volume must not share memory with the claim")
}

func TestZoneOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zone-a", zoneOf(nodeAffinity(corev1.LabelTopologyZone, "zone-a")))
	require.Empty(t, zoneOf(nil), "accessible from everywhere")
	require.Empty(t, zoneOf(nodeAffinity(corev1.LabelTopologyZone, "zone-a", "zone-b")), "accessible from several zones")
	require.Empty(t, zoneOf(nodeAffinity(corev1.LabelTopologyRegion, "local")), "bound to something else")
}

func TestIsReleased(t *testing.T) {
	t.Parallel()
	volume := renderVolume(testClaim(), testClass(storagev1.VolumeBindingImmediate), nil)
	require.False(t, isReleased(volume))
	volume.Status.Phase = corev1.VolumeReleased
	require.True(t, isReleased(volume))
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	require.False(t, isReleased(volume))
}
