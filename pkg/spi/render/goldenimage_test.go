package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

func goldenImage(t *testing.T, image spi.Image) *cdiv1beta1.DataVolume {
	t.Helper()

	require.True(t, image.Spec.UsesGoldenImage())

	made, err := render.GoldenImage(image, "machines")
	require.NoError(t, err)

	return made
}

// imageNames are frozen. With other names, all existing images would be imported again, and
// machines that wait for an image would be cloned from one that is no longer retained.
var imageNames = []struct {
	reason string
	// cluster, architecture and rest determine the image.
	cluster, architecture, rest string
	name                        string
}{
	{
		reason: "a registry, and nothing else", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-e138a3790ec39ec38b60",
	},
	{
		reason: "as above: a size has one meaning, however it is written", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20480Mi"}}}}`,
		name: "golden-e138a3790ec39ec38b60",
	},
	{
		reason: "as above: zone, region and machine do not matter", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"region":"r","zone":"z","cpu":{"cores":4},"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-e138a3790ec39ec38b60",
	},
	{
		reason: "as above: the size of the image counts, not the root volume's", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"goldenImage":{"size":"20Gi"},"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"50Gi"}}}}`,
		name: "golden-e138a3790ec39ec38b60",
	},
	{
		reason: "another shoot", cluster: "shoot--a--c", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-8a70f80421cb9f3038cf",
	},
	{
		reason: "another architecture", cluster: "shoot--a--b", architecture: "arm64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-d15132dd40908903f37d",
	},
	{
		reason: "no architecture", cluster: "shoot--a--b", architecture: "",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-b1b4561682129ea74eec",
	},
	{
		reason: "another size", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"30Gi"}}}}`,
		name: "golden-057e3204b48e1a580c61",
	},
	{
		reason: "a decimal size", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20G"}}}}`,
		name: "golden-78fe49fa5664a13c8ebf",
	},
	{
		reason: "another version", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.1"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-c299599a69cdc5df05ba",
	},
	{
		reason: "a digest, pulled by the node, with credentials", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker@sha256:0000000000000000000000000000000000000000000000000000000000000000","pullMethod":"node","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-725b117a8df6802e3bef",
	},
	{
		reason: "a storage class", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"storageClassName":"fast","resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-6195c35fb7136eba9cb8",
	},
	{
		reason: "modes", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"accessModes":["ReadWriteMany"],"volumeMode":"Block","resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-cab63178cf43e3abbb61",
	},
	{
		reason: "a claim as it is", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-584a90b91c13755bacab",
	},
	{
		reason: "annotations", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"annotations":{"example.com/b":"2","example.com/a":"1"}}`,
		name: "golden-59536fd65ae1b776395a",
	},
	{
		reason: "content type and preallocation", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"contentType":"kubevirt","preallocation":true}`,
		name: "golden-a717ecb48e26825e4a4c",
	},
	{
		reason: "what CDI's pods are run with", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1.0.0"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}},"priorityClassName":"high","serviceAccountName":"importer"}`,
		name: "golden-d0fc8f62c980e4660999",
	},
	{
		reason: "a web server", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"http":{"url":"https://images.example.com/worker.qcow2?a=1&b=2"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-48ad08ab7d25e865349b",
	},
	{
		reason: "a web server, with all that can be said of it", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"http":{"url":"https://images.example.com/worker.qcow2","checksum":"sha256:0000000000000000000000000000000000000000000000000000000000000000","insecureSkipVerify":true,"secretRef":"keys","certConfigMap":"ca","extraHeaders":["X-A: b"],"secretExtraHeaders":["headers"]}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-192d73909e55a0d3eeea",
	},
	{
		reason: "S3", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"s3":{"url":"https://s3.example.com/bucket/worker.qcow2","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-1ceaa1fa1997b1eabcac",
	},
	{
		reason: "GCS", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"gcs":{"url":"gs://bucket/worker.qcow2","secretRef":"keys"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-01d2916819a399b4ce51",
	},
	{
		reason: "oVirt", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"imageio":{"url":"https://ovirt.example.com/api","diskId":"1","secretRef":"keys","certConfigMap":"ca"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-b425a59ea57e005e31da",
	},
	{
		reason: "vSphere", cluster: "shoot--a--b", architecture: "amd64",
		rest: `"rootVolume":{"source":{"vddk":{"url":"https://vcenter.example.com","uuid":"u","backingFile":"f","thumbprint":"t","secretRef":"keys","initImageURL":"registry.example.com/vddk"}},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`,
		name: "golden-647eefe5ab98d6237fe2",
	},
}

// TestGoldenImageNamesNeverChange must not be adapted: a failure means that the change is wrong.
func TestGoldenImageNamesNeverChange(t *testing.T) {
	t.Parallel()

	reasons := map[string]string{}

	for _, tc := range imageNames {
		spec := input(t, []byte(`{"tags":{"mcm.gardener.cloud/cluster":"`+tc.cluster+`","mcm.gardener.cloud/role":"node"},`+tc.rest+`}`)).Spec
		image := goldenImage(t, spi.Image{Spec: spec, Architecture: tc.architecture})

		require.Equal(t, tc.name, image.Name, tc.reason)
		require.Empty(t, validation.IsDNS1123Label(image.Name))

		if same, known := reasons[image.Name]; known {
			require.Truef(t, strings.HasPrefix(tc.reason, "as above: "), "%s is the image of %s", tc.reason, same)
		}

		reasons[image.Name] = tc.reason
	}
}

// TestGoldenImageIsNoPartOfAMachine shows that selectors for a machine, or for a
// shoot's machines, never select an image.
func TestGoldenImageIsNoPartOfAMachine(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node","team":"blue"},"zone":"z",
		"rootVolume":{"source":{"http":{"url":"https://h/i","checksum":"md5:0","insecureSkipVerify":true}},"annotations":{"a":"b"},
		"storage":{"resources":{"requests":{"storage":"20Gi"}}}},"goldenImage":{"size":"10Gi"}}`))
	image := goldenImage(t, in.Image())

	require.NotContains(t, image.Labels, v1alpha1.TagRole)
	require.NotContains(t, image.Labels, render.LabelMachine)
	require.NotContains(t, image.Labels, "team")
	require.False(t, render.Owns(in.Identity(), image.Labels))
	require.Equal(t, "true", image.Annotations["cdi.kubevirt.io/storage.bind.immediate.requested"])
	require.Equal(t, "b", image.Annotations["a"])
	require.Equal(t, "10Gi", image.Spec.Storage.Resources.Requests.Storage().String())

	vm := virtualMachine(t, in)
	disk := vm.Spec.DataVolumeTemplates[0]

	require.NotContains(t, disk.Annotations, "cdi.kubevirt.io/storage.bind.immediate.requested", "a machine's disk is made where the machine is")
	require.Equal(t, cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "machines", Name: image.Name}}, *disk.Spec.Source)
	require.Equal(t, "20Gi", disk.Spec.Storage.Resources.Requests.Storage().String(), "the clone grows")
	require.Equal(t, image.Name, disk.Labels[v1alpha1.LabelGoldenImage])
	require.Equal(t, image.Name, vm.Labels[v1alpha1.LabelGoldenImage])
	require.NotContains(t, vm.Spec.Template.ObjectMeta.Labels, v1alpha1.LabelGoldenImage, "the pod does not need it")
	require.True(t, *in.Spec.RootVolume.Source.HTTP.InsecureSkipVerify, "the input stays as it is")
}

func TestImageInTermsOfProviderSpec(t *testing.T) {
	t.Parallel()

	for message, want := range map[string]string{
		`strict decoding error: unknown field "spec.source.http.insecureSkipVerify"`: `strict decoding error: unknown field "providerSpec.rootVolume.source.http.insecureSkipVerify"`,
		`metadata.annotations: Invalid value`:                                        `metadata.annotations: Invalid value`,
		`see https://h/spec.source`:                                                  `see https://h/spec.source`,
	} {
		require.Equal(t, want, render.ImageInTermsOfProviderSpec(message))
	}
}
