// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func storageOf(size string) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}
}

func httpSource(url string) *cdiv1beta1.DataVolumeSource {
	return &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: url}}
}

// TestOwnImage compares DataVolumes with a wanted image, once with each form of a claim.
func TestOwnImage(t *testing.T) {
	t.Parallel()

	const url = "https://images.example.com/os.qcow2"

	withStorage := &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{
		Source:  httpSource(url),
		Storage: &cdiv1beta1.StorageSpec{StorageClassName: ptr.To("fast"), Resources: storageOf("10Gi")},
	}}
	withPVC := &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{
		Source: httpSource(url),
		PVC: &corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   storageOf("10Gi"),
		},
	}}

	ofShoot := withStorage.DeepCopy()
	ofShoot.Labels = map[string]string{v1alpha1.TagShootUID: "1"}

	tests := map[string]struct {
		reason string
		want   *cdiv1beta1.DataVolume
		change func(*cdiv1beta1.DataVolume)
		names  []string // the differences; none if the image is the wanted one
	}{
		"Same":     {reason: "CDI stores what it was sent", want: withStorage, change: func(*cdiv1beta1.DataVolume) {}},
		"SamePVC":  {reason: "CDI stores what it was sent", want: withPVC, change: func(*cdiv1beta1.DataVolume) {}},
		"SizeForm": {reason: "a quantity has many forms", want: withPVC, change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.PVC.Resources = storageOf("10240Mi") }},
		"Defaulted": {
			reason: "the wanted image leaves these to the cluster",
			want:   withStorage,
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.ContentType = cdiv1beta1.DataVolumeKubeVirt
				dv.Spec.Preallocation = ptr.To(true)
				dv.Spec.PriorityClassName = "low"
				dv.Spec.Storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
				dv.Spec.Storage.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
				dv.Annotations = map[string]string{"cdi.kubevirt.io/storage.usePopulator": "true"}
			},
		},
		"DefaultedPVC": {
			reason: "the wanted image leaves these to the cluster",
			want:   withPVC,
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.PVC.StorageClassName = ptr.To("standard")
				dv.Spec.PVC.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
			},
		},
		"OlderThanTheTag": {reason: "the Shoot is the same", want: ofShoot, change: func(dv *cdiv1beta1.DataVolume) { dv.Labels = nil }},
		"OtherShoot": {
			reason: "a Shoot of another landscape with the same technical ID",
			want:   ofShoot,
			names:  []string{"label " + v1alpha1.TagShootUID},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Labels[v1alpha1.TagShootUID] = "2" },
		},
		"Source": {
			reason: "another operating system",
			want:   withStorage,
			names:  []string{"spec.source.http.url"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.Source = httpSource("https://evil.example.com/os.qcow2") },
		},
		"KindOfSource": {
			reason: "another operating system",
			want:   withStorage,
			names:  []string{"spec.source.blank", "spec.source.http"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.Source = &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}
			},
		},
		"TrustOfSource": {
			reason: "a certificate authority that the class does not name",
			want:   withPVC,
			names:  []string{"spec.source.http.certConfigMap"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.Source.HTTP.CertConfigMap = "ca" },
		},
		"StorageClass": {
			reason: "the machines of the class pay for another one",
			want:   withStorage,
			names:  []string{"spec.storage.storageClassName"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.Storage.StorageClassName = ptr.To("slow") },
		},
		"NoStorageClass": {
			reason: "the cluster's default is another one",
			want:   withStorage,
			names:  []string{"spec.storage.storageClassName"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.Storage.StorageClassName = nil },
		},
		"Size": {
			reason: "clones could not shrink it",
			want:   withStorage,
			names:  []string{"spec.storage.resources.requests.storage"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.Storage.Resources = storageOf("20Gi") },
		},
		"AccessMode": {
			reason: "it is in the key",
			want:   withPVC,
			names:  []string{"spec.pvc.accessModes"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.PVC.AccessModes[0] = corev1.ReadWriteMany },
		},
		"FormOfClaim": {
			reason: "a profile decides instead of the class",
			want:   withPVC,
			names:  []string{"spec.pvc", "spec.storage"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Spec.PVC = nil
				dv.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: storageOf("10Gi")}
			},
		},
		"ContentType": {
			reason: "an archive is no disk",
			want:   withStorage,
			names:  []string{"spec.contentType"},
			change: func(dv *cdiv1beta1.DataVolume) { dv.Spec.ContentType = cdiv1beta1.DataVolumeArchive },
		},
		"LeftOverClaim": {
			reason: "CDI takes what the claim had before",
			want:   withStorage,
			names:  []string{"annotation cdi.kubevirt.io/allowClaimAdoption"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Annotations = map[string]string{"cdi.kubevirt.io/allowClaimAdoption": "true"}
			},
		},
		"Uploaded": {
			reason: "CDI accepts an upload",
			want:   withStorage,
			names:  []string{"annotation cdi.kubevirt.io/storage.upload.target"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Annotations = map[string]string{"cdi.kubevirt.io/storage.upload.target": ""}
			},
		},
		"NeverImported": {
			reason: "CDI believes an import that never ran",
			want:   withStorage,
			names:  []string{"annotation cdi.kubevirt.io/storage.pod.phase"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Annotations = map[string]string{"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}
			},
		},
		"TrustOfImport": {
			reason: "CDI imports with the certificate authority of the annotation",
			want:   withStorage,
			names:  []string{"annotation cdi.kubevirt.io/storage.import.certConfigMap"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Annotations = map[string]string{"cdi.kubevirt.io/storage.import.certConfigMap": "ca"}
			},
		},
		"PrePopulated": {
			reason: "CDI has taken what the claim had before",
			want:   withStorage,
			names:  []string{"annotation cdi.kubevirt.io/storage.prePopulated"},
			change: func(dv *cdiv1beta1.DataVolume) {
				dv.Annotations = map[string]string{"cdi.kubevirt.io/storage.prePopulated": "golden-1"}
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			have := tc.want.DeepCopy()
			tc.change(have)
			require.ElementsMatch(t, tc.names, append(differentMetadata(have, tc.want), differentSpec(&have.Spec, &tc.want.Spec)...), tc.reason)
		})
	}
}

// TestShortList bounds the list of differences of a DataVolume in an error.
func TestShortList(t *testing.T) {
	t.Parallel()

	require.Equal(t, "a, b", shortList([]string{"a", "b"}))
	require.Equal(t, "a, b, c, d, e, and 2 more", shortList([]string{"a", "b", "c", "d", "e", "f", "g"}))
	require.Len(t, shortList([]string{strings.Repeat("x", 5000)}), 100+len("…"))
}

// TestCloneCompleted_ReplacedImage replaces an image during its import by another DataVolume, and asks
// whether the image is ready.
func TestCloneCompleted_ReplacedImage(t *testing.T) {
	t.Parallel()

	for uid, want := range map[string]state{"created": ready, "planted": ""} {
		t.Run(uid, func(t *testing.T) {
			t.Parallel()

			at := clientsOf(t, httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"kind":"DataVolume","apiVersion":"cdi.kubevirt.io/v1beta1",
					"metadata":{"name":"golden-1","namespace":"ns","uid":"`+uid+`"},"status":{"phase":"Succeeded"}}`)
			})))
			k := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
			k.states.set(refOf(at, "golden-1"), importing, "created")

			k.CloneCompleted(t.Context(), at, "golden-1")
			require.Equal(t, want, k.states.state(refOf(at, "golden-1")))
		})
	}
}
