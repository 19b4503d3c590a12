// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// CreateBrokenImage creates the source DataVolume of CloneRoot, with a URL that does not exist.
func CreateBrokenImage(t *testing.T, s *Shoot) {
	t.Helper()
	s.MakeImage(t, "https://images.example.com/404/worker.qcow2")
}

// MakeImage creates the source DataVolume of CloneRoot, imported from a URL.
func (s *Shoot) MakeImage(t *testing.T, url string) {
	t.Helper()
	s.MakeImageOf(t, url, "immediate", map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true"})
}

// MakeImageOf creates the source DataVolume of CloneRoot on a storage class, with annotations on
// it.
func (s *Shoot) MakeImageOf(t *testing.T, url, storageClass string, annotations map[string]string) {
	t.Helper()

	image := &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "image", Annotations: annotations},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: url}},
			Storage: &cdiv1beta1.StorageSpec{
				StorageClassName: new(storageClass),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
	}
	_, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)
}

// CloneRoot is a root volume that is cloned from the claim "image".
const CloneRoot = `{"source":{"pvc":{"name":"image"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`

// ImportImage creates a DataVolume, hence a claim of the same name, from
// which machines can be cloned.
func (s *Shoot) ImportImage(t *testing.T, name string) {
	t.Helper()

	image := &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"cdi.kubevirt.io/storage.bind.immediate.requested": "true"},
		},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: "https://images.example.com/worker.qcow2"}},
			Storage: &cdiv1beta1.StorageSpec{
				StorageClassName: new("immediate"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		},
	}

	volumes := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace)
	_, err := volumes.Create(t.Context(), image, metav1.CreateOptions{})
	require.NoError(t, err)

	Eventually(t, "image "+name+" is imported", func(ctx context.Context) (bool, error) {
		got, err := volumes.Get(ctx, name, metav1.GetOptions{})

		return err == nil && got.Status.Phase == cdiv1beta1.Succeeded, err
	})
}
