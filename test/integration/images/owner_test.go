// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// claimForms are the two forms of a root volume's claim, with a size.
var claimForms = map[string]string{
	"Storage": `"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"%dGi"}}}`,
	"PVC":     `"pvc":{"accessModes":["ReadWriteOnce"],"storageClassName":"immediate","resources":{"requests":{"storage":"%dGi"}}}`,
}

func rootWith(claim string, size int) string {
	return `{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},` + fmt.Sprintf(claim, size) + `}`
}

// TestForeignObjectInPlaceOfAnImage checks that the driver neither uses nor changes a foreign
// DataVolume with the image's name, even if it has the image's labels and annotations.
func TestForeignObjectInPlaceOfAnImage(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	volumes := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace)

	for i, tc := range []struct {
		reason string
		claim  string
		change func(*cdiv1beta1.DataVolume)
		names  string
	}{
		{
			reason: "its key names other properties",
			claim:  "Storage",
			names:  "annotation " + v1alpha1.AnnotationGoldenImageKey,
			change: func(dv *cdiv1beta1.DataVolume) { dv.Annotations[v1alpha1.AnnotationGoldenImageKey] = "{}" },
		},
		{
			reason: "it has another source",
			claim:  "Storage",
			names:  "spec.source.registry.url",
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.Source.Registry.URL = ptr.To("docker://evil.example.com/worker:1")
			},
		},
		{
			reason: "it has another storage class",
			claim:  "PVC",
			names:  "spec.pvc.storageClassName",
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.PVC.StorageClassName = ptr.To("copy") },
		},
		{
			reason: "it is larger than the clones",
			claim:  "PVC",
			names:  "spec.pvc.resources.requests.storage",
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.PVC.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("9Gi")}
			},
		},
		{
			reason: "CDI would adopt an existing claim with its data",
			claim:  "Storage",
			names:  "annotation cdi.kubevirt.io/allowClaimAdoption",
			change: func(dv *cdiv1beta1.DataVolume) { dv.Annotations["cdi.kubevirt.io/allowClaimAdoption"] = "true" },
		},
	} {
		m := s.NewMachine("zone-a", rootWith(claimForms[tc.claim], i+1))
		planted := s.Rendered(t, m)
		tc.change(planted)

		made, err := volumes.Create(t.Context(), planted, metav1.CreateOptions{})
		require.NoError(t, err)

		_, err = m.Create(t.Context(), d)
		require.Equal(t, codes.AlreadyExists, harness.CodeOf(err), tc.reason)
		require.ErrorContains(t, err, planted.Name)
		require.ErrorContains(t, err, tc.names)

		left, err := volumes.Get(t.Context(), planted.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, made.UID, left.UID, tc.reason)
	}
}

// TestOwnImageIsRecognised checks that a process recognizes the complete images of another one,
// after the real CDI has changed them.
func TestOwnImageIsRecognised(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)

	for form, claim := range claimForms {
		m := s.NewMachine("zone-a", rootWith(claim, 1))
		d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
		s.CreateImage(t, m, cdiv1beta1.Succeeded)

		_, err := m.Create(t.Context(), d)
		require.NoError(t, err, form)
		require.NoError(t, m.Remove(t.Context(), d))
	}

	s.RequireNothingLeft(t)
}

// TestPlantedImageIsReported replaces an image by a foreign DataVolume while a machine waits for
// it.
func TestPlantedImageIsReported(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second})
	s.ImportFor(t, time.Hour)

	m := s.NewMachine("zone-a", harness.ImportedRoot)
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	planted := s.Rendered(t, m)
	volumes := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace)
	planted.Spec.Source.Registry.URL = ptr.To("docker://evil.example.com/worker:1")
	require.NoError(t, volumes.Delete(t.Context(), planted.Name, metav1.DeleteOptions{}))

	harness.Eventually(t, "the image is replaced", func(ctx context.Context) (bool, error) {
		_, err := volumes.Create(ctx, planted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}

		return err == nil, err
	})

	harness.Eventually(t, "the driver reports the foreign DataVolume", func(ctx context.Context) (bool, error) {
		_, err := m.Initialize(ctx, d)
		if harness.CodeOf(err) != codes.AlreadyExists {
			return false, nil
		}

		require.ErrorContains(t, err, "spec.source.registry.url")

		return true, nil
	})
	require.NoError(t, m.Remove(t.Context(), d))
}
