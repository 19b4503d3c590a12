package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestEffectiveModes(t *testing.T) {
	t.Parallel()

	type modes = []corev1.PersistentVolumeAccessMode

	block, files := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	sets := []cdiv1beta1.ClaimPropertySet{
		{AccessModes: modes{corev1.ReadWriteMany}, VolumeMode: &block}, {AccessModes: modes{corev1.ReadWriteOnce}, VolumeMode: &files},
	}

	tests := map[string]struct {
		reason string
		given  modes
		mode   *corev1.PersistentVolumeMode
		sets   []cdiv1beta1.ClaimPropertySet
		want   modes
		volume *corev1.PersistentVolumeMode
	}{
		"First":     {reason: "the best comes first", sets: sets, want: modes{corev1.ReadWriteMany}, volume: &block},
		"OfMode":    {reason: "the volume mode is given", mode: &files, sets: sets, want: modes{corev1.ReadWriteOnce}, volume: &files},
		"OfAccess":  {reason: "the access modes are given", given: modes{corev1.ReadWriteOnce}, sets: sets, want: modes{corev1.ReadWriteOnce}, volume: &files},
		"Own":       {reason: "the class knows better", given: modes{corev1.ReadWriteOnce}, want: modes{corev1.ReadWriteOnce}},
		"None":      {reason: "nobody knows"},
		"NotOfMode": {reason: "nobody knows for devices", mode: &block, sets: sets[1:], volume: &block},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := &disk{requested: cdiv1beta1.StorageSpec{AccessModes: tc.given, VolumeMode: tc.mode}}
			got, volume := d.effectiveModes(&cdiv1beta1.StorageProfile{Status: cdiv1beta1.StorageProfileStatus{ClaimPropertySets: tc.sets}})
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, tc.volume, volume, tc.reason)
		})
	}
}

func TestStandsFor(t *testing.T) {
	t.Parallel()

	claim := cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image"}}
	plain := &cdiv1beta1.DataSource{Spec: cdiv1beta1.DataSourceSpec{Source: claim}}
	require.Equal(t, "PersistentVolumeClaim images/image", ptr.To(resolvedSource(plain, "images")[0]).subject())

	pointer := &cdiv1beta1.DataSource{}
	pointer.Spec.Source.DataSource = &cdiv1beta1.DataSourceRefSourceDataSource{Name: "other"}
	require.Empty(t, resolvedSource(pointer, "images"), "the other one is not there")

	pointer.Status.Source = claim
	require.Equal(t, resolvedSource(plain, "images"), resolvedSource(pointer, "images"))
}

func TestGrows(t *testing.T) {
	t.Parallel()

	storage := func(size string) cdiv1beta1.StorageSpec {
		return cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}
	}
	c := &classChecker{image: &cdiv1beta1.DataVolume{Spec: cdiv1beta1.DataVolumeSpec{Storage: ptr.To(storage("10Gi"))}}}

	require.True(t, c.grows(&disk{path: rootVolumePath, requested: storage("11Gi")}))
	require.False(t, c.grows(&disk{path: rootVolumePath, requested: storage("10240Mi")}))
	require.False(t, c.grows(&disk{path: "providerSpec.dataVolumes[0]", requested: storage("11Gi")}), "it is not cloned from the image")
}

func TestReaches(t *testing.T) {
	t.Parallel()

	of := func(key string, zones ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: zones}}}
	}
	class := func(terms ...corev1.TopologySelectorTerm) *storagev1.StorageClass {
		return &storagev1.StorageClass{AllowedTopologies: terms}
	}

	require.True(t, provisionsIn(class(), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y", "z")), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y"), of(corev1.LabelTopologyZone, "z")), "z"), "one term is enough")
	require.False(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y")), "z"))
	require.True(t, provisionsIn(class(of(corev1.LabelTopologyZone, "y")), v1alpha1.AnyTopology))
	require.True(t, provisionsIn(class(of("topology.example.com/zone", "y")), "z"), "what another label means is not known")
}

func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()

	class := func(annotation string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{}
		c.Annotations = map[string]string{annotation: "true"}

		return c
	}

	found := &storages{classes: map[string]*storagev1.StorageClass{"other": {}}}
	require.Empty(t, found.defaultClass())

	found.classes["plain"] = class(annotationDefaultClass)
	require.Equal(t, "plain", found.defaultClass())

	found.classes["virt"] = class(annotationDefaultVirtClass)
	require.Equal(t, "virt", found.defaultClass(), "CDI prefers its own")
}
