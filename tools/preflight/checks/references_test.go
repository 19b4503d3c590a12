package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/ptr"
	cdifake "kubevirt.io/client-go/containerizeddataimporter/fake"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classOn returns a checker of a class with this VirtualMachine, on a cluster with these objects.
func classOn(t *testing.T, vm string, objects ...runtime.Object) *classChecker {
	t.Helper()

	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))

	clients := &providerapi.Clients{
		Kubernetes: fake.NewClientset(objects...), CDI: cdifake.NewSimpleClientset(), Metadata: metadatafake.NewSimpleMetadataClient(scheme), Namespace: "machines",
	}
	tags := map[string]string{v1alpha1.TagCluster: "shoot", v1alpha1.TagRole: "node"}
	c := &checker{namespace: "machines", viewer: &identity{Identity: Identity{Name: Admin}, clients: clients}, now: time.Now()}
	class := &classChecker{checker: c, vm: machine(t, vm), Class: Class{Name: "c", Machine: &spi.CreateMachineInput{Spec: &v1alpha1.ProviderSpec{Tags: tags}}}}
	c.classes = []*classChecker{class}
	c.storages = func() *storages {
		return &storages{classes: map[string]*storagev1.StorageClass{}, profiles: map[string]*cdiv1beta1.StorageProfile{}}
	}

	return class
}

func TestReferences(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		vm     string
		want   []string
	}{
		"PriorityOfImport": {
			reason: "CDI's pods have it", vm: `{"spec":{"dataVolumeTemplates":[{"spec":{"priorityClassName":"import"}}],"template":{"spec":{}}}}`,
			want: []string{"PriorityClass import"},
		},
		"PriorityOfMachine": {
			reason: "the launcher pod has it", vm: `{"spec":{"template":{"spec":{"priorityClassName":"workers"}}}}`, want: []string{"PriorityClass workers"},
		},
		"Headers": {
			reason: "each header may have its own Secret",
			vm:     `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"http":{"url":"u","secretRef":"s","certConfigMap":"c","secretExtraHeaders":["h1","h2"]}}}}],"template":{"spec":{}}}}`,
			want:   []string{"Secret machines/s", "ConfigMap machines/c", "Secret machines/h1", "Secret machines/h2"},
		},
		"NodePull": {
			reason: "CDI ignores the Secret", vm: `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"registry":{"url":"u","pullMethod":"node","secretRef":"s"}}}}],"template":{"spec":{}}}}`,
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

			c := classOn(t, tc.vm)
			c.secrets = []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "own"}}}

			var got []string
			for _, r := range c.references() {
				got = append(got, r.subject())
			}

			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestCheckSources_MissingPriorityClass also has a source in a namespace that does not exist.
func TestCheckSources_MissingPriorityClass(t *testing.T) {
	t.Parallel()

	c := classOn(t, `{"spec":{"dataVolumeTemplates":[{"spec":{"priorityClassName":"import","source":{"pvc":{"name":"base","namespace":"imagse"}}}}],"template":{"spec":{}}}}`,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "images"}})

	got := c.checkSources(t.Context())
	require.Len(t, got, 2)
	require.Equal(t, Error, got[0].Level)
	require.Equal(t, "Namespace imagse does not exist", got[0].Message)
	require.Equal(t, Error, got[1].Level)
	require.Equal(t, "PriorityClass import: does not exist", got[1].Subject+": "+got[1].Message)
	require.Contains(t, got[1].Remedy, "kubectl get priorityclasses.scheduling.k8s.io")
}

func TestCheckSourceClasses(t *testing.T) {
	t.Parallel()

	const cloned = `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"pvc":{"name":"base","namespace":"images"}},"storage":{"storageClassName":"zonal"}}}],"template":{"spec":{}}}}`

	claim := func(class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "base"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(class)}}
	}

	got := classOn(t, cloned, claim("immediate")).checkSourceClasses(t.Context())
	require.Len(t, got, 1)
	require.Equal(t, Warning, got[0].Level)
	require.Contains(t, got[0].Message, "has StorageClass immediate")
	require.Contains(t, got[0].Message, "cloned into zonal")
	require.Contains(t, got[0].Remedy, "to immediate, or provide the image in zonal")

	require.Empty(t, classOn(t, cloned, claim("zonal")).checkSourceClasses(t.Context()))
	require.Empty(t, classOn(t, cloned).checkSourceClasses(t.Context()), "checkSources reports the missing claim")
}
