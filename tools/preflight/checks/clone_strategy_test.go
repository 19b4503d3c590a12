// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

func TestCheckCloneStrategies_SourceClass(t *testing.T) {
	t.Parallel()

	const cloned = `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"pvc":{"name":"base","namespace":"images"}},"storage":{"storageClassName":"zonal"}}}],"template":{"spec":{}}}}`

	claim := func(class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "base"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(class)}}
	}

	got := checkCloneStrategies(t.Context(), readerOn(t, claim("immediate")), classOf(t, cloned))
	require.Len(t, got, 1)
	require.Equal(t, Warning, got[0].Level)
	require.Contains(t, got[0].Message, "has StorageClass immediate")
	require.Contains(t, got[0].Message, "cloned into zonal")
	require.Contains(t, got[0].Remedy, "to immediate, or provide the image in zonal")

	require.Empty(t, checkCloneStrategies(t.Context(), readerOn(t, claim("zonal")), classOf(t, cloned)))
	require.Empty(t, checkCloneStrategies(t.Context(), readerOn(t), classOf(t, cloned)), "checkSources reports the missing claim")
}

func TestGrows(t *testing.T) {
	t.Parallel()

	storage := func(size string) cdiv1beta1.StorageSpec {
		return cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}
	}
	image := &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{Storage: ptr.To(storage("10Gi"))}}

	require.True(t, grows(&disk{image: image, requested: storage("11Gi")}))
	require.False(t, grows(&disk{image: image, requested: storage("10240Mi")}))
	require.False(t, grows(&disk{requested: storage("11Gi")}), "it is not cloned from the image")
}
