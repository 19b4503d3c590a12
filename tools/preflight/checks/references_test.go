// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

func TestClass_References(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		vm     string
		want   []string
	}{
		"PriorityOfImport": {
			reason: "CDI's pods have it",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"priorityClassName":"import"}}],"template":{"spec":{}}}}`,
			want:   []string{"PriorityClass import"},
		},
		"PriorityOfMachine": {
			reason: "the launcher pod has it",
			vm:     `{"spec":{"template":{"spec":{"priorityClassName":"workers"}}}}`,
			want:   []string{"PriorityClass workers"},
		},
		"Headers": {
			reason: "each header may have its own Secret",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"http":{"url":"u","secretRef":"s","certConfigMap":"c","secretExtraHeaders":["h1","h2"]}}}}],"template":{"spec":{}}}}`,
			want:   []string{"Secret machines/s", "ConfigMap machines/c", "Secret machines/h1", "Secret machines/h2"},
		},
		"NodePull": {
			reason: "CDI ignores the Secret",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"registry":{"url":"u","pullMethod":"node","secretRef":"s"}}}}],"template":{"spec":{}}}}`,
		},
		"VDDK": {
			reason: "all sources have the same fields",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"vddk":{"url":"u","secretRef":"s","certConfigMap":"c"}}}}],"template":{"spec":{}}}}`,
			want:   []string{"Secret machines/s", "ConfigMap machines/c"},
		},
		"Blank": {
			reason: "no source is external",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"blank":{}}}}],"template":{"spec":{}}}}`,
		},
		"Repeated": {
			reason: "several disks share a Secret",
			vm: `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"s3":{"url":"u","secretRef":"s"}}}},` +
				`{"spec":{"source":{"s3":{"url":"v","secretRef":"s"}}}}],"template":{"spec":{}}}}`,
			want: []string{"Secret machines/s"},
		},
		"Volumes": {
			reason: "the guest mounts them; optional ones may be missing, and the driver creates its own",
			vm: `{"spec":{"template":{"spec":{"volumes":[{"containerDisk":{"image":"i","imagePullSecret":"pull"}},{"persistentVolumeClaim":{"claimName":"data"}},` +
				`{"secret":{"secretName":"token"}},{"secret":{"secretName":"no","optional":true}},{"secret":{"secretName":"own"}},{"configMap":{"name":"config"}},` +
				`{"configMap":{"name":"none","optional":true}},{"secret":{"secretName":"required","optional":false}},{"configMap":{"name":"must","optional":false}},` +
				`{"ephemeral":{"persistentVolumeClaim":{"claimName":"base"}}},{"ephemeral":{}},{"emptyDisk":{"capacity":"1Gi"}},` +
				`{"sysprep":{"configMap":{"name":"answers"}}},{"sysprep":{"secret":{"name":"keys"}}}],` +
				`"domain":{"firmware":{"kernelBoot":{"container":{"image":"k","imagePullSecret":"kernel"}}}}}}}}`,
			want: []string{
				"Secret machines/kernel", "Secret machines/pull", "PersistentVolumeClaim machines/data", "Secret machines/token", "ConfigMap machines/config",
				"Secret machines/required", "ConfigMap machines/must", "PersistentVolumeClaim machines/base", "ConfigMap machines/answers", "Secret machines/keys",
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := classOf(t, tc.vm)
			c.secrets = []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "own"}}}

			var got []string
			for _, r := range c.references() {
				got = append(got, r.subject())
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestClass_References_GoldenImage has a root disk that is cloned from a golden image, and another disk. The driver creates
// the golden image, so its sources count and not those of the root disk.
func TestClass_References_GoldenImage(t *testing.T) {
	t.Parallel()

	const uid = "6f1a2b3c-0000-4000-8000-000000000000"

	data := render.DataVolumeName("m", uid, "data")
	c := classOf(t, `{"spec":{"dataVolumeTemplates":[{"metadata":{"name":"root"},"spec":{"source":{"pvc":{"name":"image-1"}}}},`+
		`{"metadata":{"name":"`+data+`"},"spec":{"source":{"pvc":{"name":"base","namespace":"images"}}}}],"template":{"spec":{}}}}`)
	c.Machine.Name = "m"
	c.Machine.UID = uid
	c.Machine.Spec.AdditionalVolumes = []v1alpha1.AdditionalVolume{{Name: "data"}}
	c.image = &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{
		Source: &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{SecretRef: ptr.To("pull")}},
	}}

	var got []string
	for _, r := range c.references() {
		got = append(got, r.subject())
	}

	require.Equal(t, []string{"PersistentVolumeClaim images/base", "Secret machines/pull"}, got)
}

func TestResolvedSource(t *testing.T) {
	t.Parallel()

	claim := cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image"}}
	plain := &cdiv1beta1.DataSource{Spec: cdiv1beta1.DataSourceSpec{Source: claim}}
	resolved := resolvedSource(plain, "images")
	require.Equal(t, "PersistentVolumeClaim images/image", resolved[0].subject())

	pointer := &cdiv1beta1.DataSource{}
	pointer.Spec.Source.DataSource = &cdiv1beta1.DataSourceRefSourceDataSource{Name: "other"}
	require.Empty(t, resolvedSource(pointer, "images"), "the other one is not there")

	pointer.Status.Source = claim
	require.Equal(t, resolvedSource(plain, "images"), resolvedSource(pointer, "images"))
}
