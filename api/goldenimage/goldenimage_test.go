// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package goldenimage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// imageNames are frozen. With other names, all existing images would be imported again, and
// machines that wait for an image would be cloned from one that is no longer retained.
var imageNames = []struct {
	reason string
	// cluster, architecture and rest determine the image.
	cluster, architecture, rest string
	name                        string
}{
	{
		reason:       "a registry, and nothing else",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-e138a3790ec39ec38b60",
	},
	{
		reason:       "as above: a size has one meaning, however it is written",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20480Mi"}}}}`,
		name:         "golden-e138a3790ec39ec38b60",
	},
	{
		reason:       "as above: zone, region and machine do not matter",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"region":"r","zone":"z","cpu":{"cores":4},"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-e138a3790ec39ec38b60",
	},
	{
		reason:       "as above: the size of the image counts, not the root volume's",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"goldenImage":{"size":"20Gi"},"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"50Gi"}}}}`,
		name:         "golden-e138a3790ec39ec38b60",
	},
	{
		reason:       "another shoot",
		cluster:      "shoot--a--c",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-8a70f80421cb9f3038cf",
	},
	{
		reason:       "another architecture",
		cluster:      "shoot--a--b",
		architecture: "arm64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-d15132dd40908903f37d",
	},
	{
		reason:       "no architecture",
		cluster:      "shoot--a--b",
		architecture: "",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-b1b4561682129ea74eec",
	},
	{
		reason:       "another size",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"30Gi"}}}}`,
		name:         "golden-057e3204b48e1a580c61",
	},
	{
		reason:       "a decimal size",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20G"}}}}`,
		name:         "golden-78fe49fa5664a13c8ebf",
	},
	{
		reason:       "another version",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.1"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-c299599a69cdc5df05ba",
	},
	{
		reason:       "a digest, pulled by the node, with credentials",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker@sha256:0000000000000000000000000000000000000000000000000000000000000000","pullMethod":"node","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-725b117a8df6802e3bef",
	},
	{
		reason:       "a storage class",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"storageClassName":"fast","resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-6195c35fb7136eba9cb8",
	},
	{
		reason:       "modes",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"accessModes":["ReadWriteMany"],"volumeMode":"Block","resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-cab63178cf43e3abbb61",
	},
	{
		reason:       "a claim as it is",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-584a90b91c13755bacab",
	},
	{
		reason:       "annotations",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"annotations":{"example.com/b":"2","example.com/a":"1"}}`,
		name:         "golden-59536fd65ae1b776395a",
	},
	{
		reason:       "content type and preallocation",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"contentType":"kubevirt","preallocation":true}`,
		name:         "golden-a717ecb48e26825e4a4c",
	},
	{
		reason:       "what CDI's pods are run with",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"priorityClassName":"high","serviceAccountName":"importer"}`,
		name:         "golden-d0fc8f62c980e4660999",
	},
	{
		reason:       "a web server",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"http":{"url":"https://images.example.com/worker.qcow2?a=1&b=2"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-48ad08ab7d25e865349b",
	},
	{
		reason:       "a web server, with all that can be said of it",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"http":{"url":"https://images.example.com/worker.qcow2","checksum":"sha256:0000000000000000000000000000000000000000000000000000000000000000","insecureSkipVerify":true,"secretRef":"keys","certConfigMap":"ca","extraHeaders":["X-A: b"],"secretExtraHeaders":["headers"]}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-192d73909e55a0d3eeea",
	},
	{
		reason:       "S3",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"s3":{"url":"https://s3.example.com/bucket/worker.qcow2","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-1ceaa1fa1997b1eabcac",
	},
	{
		reason:       "GCS",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"gcs":{"url":"gs://bucket/worker.qcow2","secretRef":"keys"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-01d2916819a399b4ce51",
	},
	{
		reason:       "oVirt",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"imageio":{"url":"https://ovirt.example.com/api","diskId":"1","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-b425a59ea57e005e31da",
	},
	{
		reason:       "vSphere",
		cluster:      "shoot--a--b",
		architecture: "amd64",
		rest:         `"rootVolume":{"source":{"vddk":{"url":"https://vcenter.example.com","uuid":"u","backingFile":"f","thumbprint":"t","secretRef":"keys","initImageURL":"registry.example.com/vddk"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name:         "golden-647eefe5ab98d6237fe2",
	},
}

// TestNameOf_NeverChanges must not be adapted: a failure means that the change is wrong.
func TestNameOf_NeverChanges(t *testing.T) {
	t.Parallel()

	reasons := map[string]string{}

	for _, tc := range imageNames {
		spec, errs := v1alpha1.Decode([]byte(`{"tags":{"mcm.gardener.cloud/cluster":"`+tc.cluster+`","mcm.gardener.cloud/role":"node"},`+tc.rest+`}`), nil)
		require.Empty(t, errs)
		require.True(t, spec.UsesGoldenImage())

		source := goldenimage.Source{Spec: spec, Architecture: tc.architecture}
		image, err := source.DataVolume("machines")
		require.NoError(t, err)

		name, err := source.Name()
		require.NoError(t, err)
		require.Equal(t, tc.name, name, tc.reason)
		require.Equal(t, tc.name, image.Name)
		require.Equal(t, tc.name, image.Labels[v1alpha1.LabelGoldenImage])
		require.Equal(t, tc.name, goldenimage.NameOf(image.Annotations[v1alpha1.AnnotationGoldenImageKey]))
		require.Empty(t, validation.IsDNS1123Label(image.Name))

		if same, known := reasons[image.Name]; known {
			require.Truef(t, strings.HasPrefix(tc.reason, "as above: "), "%s is the image of %s", tc.reason, same)
		}

		reasons[image.Name] = tc.reason
	}
}

// TestDataVolume_ShootUID labels an image with the UID of the Shoot, if the machines have the tag. The name remains.
func TestDataVolume_ShootUID(t *testing.T) {
	t.Parallel()

	spec, errs := v1alpha1.Decode([]byte(`{"tags":{"mcm.gardener.cloud/cluster":"shoot--a--b"},`+imageNames[0].rest+`}`), nil)
	require.Empty(t, errs)

	source := goldenimage.Source{Spec: spec, Architecture: imageNames[0].architecture}
	before, err := source.DataVolume("machines")
	require.NoError(t, err)
	require.NotContains(t, before.Labels, v1alpha1.TagShootUID)

	spec.Tags[v1alpha1.TagShootUID] = "1"
	after, err := source.DataVolume("machines")
	require.NoError(t, err)
	require.Equal(t, "1", after.Labels[v1alpha1.TagShootUID])

	delete(after.Labels, v1alpha1.TagShootUID)
	require.Equal(t, before, after, "nothing else changes")
}

func TestIs(t *testing.T) {
	t.Parallel()

	imageName := goldenimage.NameOf("key")

	tests := map[string]struct {
		reason string
		change func(image *metav1.ObjectMeta)
		want   bool
	}{
		"Image":        {reason: "it has all that an image has", change: func(*metav1.ObjectMeta) {}, want: true},
		"OtherCluster": {reason: "another shoot's", change: func(image *metav1.ObjectMeta) { image.Labels[v1alpha1.TagCluster] = "other" }},
		"Machine":      {reason: "machines have a role", change: func(image *metav1.ObjectMeta) { image.Labels[v1alpha1.TagRole] = "node" }},
		"Clone":        {reason: "its label names the image", change: func(image *metav1.ObjectMeta) { image.Name = "clone" }},
		"Copy": {
			reason: "its name is no hash",
			change: func(image *metav1.ObjectMeta) {
				image.Name = "copy"
				image.Labels[v1alpha1.LabelGoldenImage] = "copy"
			},
		},
		"NoKey": {reason: "its content is unknown", change: func(image *metav1.ObjectMeta) { image.Annotations = nil }},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			image := &metav1.ObjectMeta{
				Name:        imageName,
				Labels:      map[string]string{v1alpha1.TagCluster: "c", v1alpha1.LabelGoldenImage: imageName},
				Annotations: map[string]string{v1alpha1.AnnotationGoldenImageKey: "key"},
			}
			tc.change(image)
			require.Equal(t, tc.want, goldenimage.Is(image, "c"), tc.reason)
		})
	}
}
