// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/util"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/chart"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	fakesecretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	"github.com/gardener/gardener/pkg/utils/validation/kubernetesversion"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

const namespace = "shoot--a--b"

func newControlPlane() *extensionsv1alpha1.ControlPlane {
	return &extensionsv1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"},
		Spec: extensionsv1alpha1.ControlPlaneSpec{
			SecretRef:                    corev1.SecretReference{Namespace: namespace, Name: "cloudprovider"},
			InfrastructureProviderStatus: raw(&api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Namespace: "machines"}),
		},
	}
}

func newCluster(classes ...api.VolumeClass) *extensionscontroller.Cluster {
	return &extensionscontroller.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Shoot:      &gardencorev1beta1.Shoot{Status: gardencorev1beta1.ShootStatus{TechnicalID: namespace}},
		CloudProfile: &gardencorev1beta1.CloudProfile{Spec: gardencorev1beta1.CloudProfileSpec{
			ProviderConfig: raw(&api.CloudProfileConfig{TypeMeta: api.TypeMeta("CloudProfileConfig"), VolumeClasses: classes}),
		}},
	}
}

func raw(object any) *runtime.RawExtension {
	text, err := yaml.Marshal(object)
	if err != nil {
		panic(err)
	}

	text, err = yaml.YAMLToJSON(text)
	if err != nil {
		panic(err)
	}

	return &runtime.RawExtension{Raw: text}
}

// newProvider returns a provider of values, and the certificates of a seed.
func newProvider() (*valuesProvider, secretsmanager.Interface) {
	seed := fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serverName}}).Build()

	return &valuesProvider{}, fakesecretsmanager.New(seed, namespace)
}

// render renders all charts, and decodes their objects strictly.
func render(t *testing.T, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster, version string) []client.Object {
	t.Helper()

	p, certificates := newProvider()

	seedValues, err := p.GetControlPlaneChartValues(t.Context(), cp, cluster, certificates, nil, false)
	require.NoError(t, err)

	classValues, err := p.GetStorageClassesChartValues(t.Context(), cp, cluster)
	require.NoError(t, err)

	renderer, err := util.NewChartRendererForShoot(version)
	require.NoError(t, err)

	var objects []client.Object

	for _, c := range []struct {
		chart     *chart.Chart
		namespace string
		values    values
	}{{seedChart, namespace, seedValues}, {shootChart, metav1.NamespaceSystem, values{}}, {shootCRDsChart, metav1.NamespaceSystem, values{}}, {storageClassesChart, metav1.NamespaceSystem, classValues}} {
		_, manifest, err := c.chart.Render(renderer, c.namespace, imagevector.ImageVector(), version, version, c.values)
		require.NoError(t, err)

		objects = append(objects, decodeAll(t, manifest)...)
	}

	return objects
}

func decodeAll(t *testing.T, manifest []byte) (objects []client.Object) {
	t.Helper()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kubernetesscheme.AddToScheme, apiextensionsv1.AddToScheme, snapshotv1.AddToScheme, monitoringv1.AddToScheme, vpaautoscalingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}

	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}

		decoded, _, err := decoder.Decode([]byte(document), nil, nil)
		require.NoErrorf(t, err, "%s", document)

		object, ok := decoded.(client.Object)
		require.True(t, ok)

		objects = append(objects, object)
	}

	return objects
}

// one returns the only object of its type with a name.
func one[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()

	var found []T

	for _, o := range objects {
		if typed, ok := o.(T); ok && o.GetName() == name {
			found = append(found, typed)
		}
	}

	require.Len(t, found, 1, name)

	return found[0]
}

// TestValuesProvider_Charts renders the objects for all Kubernetes versions that Gardener supports.
func TestValuesProvider_Charts(t *testing.T) {
	t.Parallel()

	for _, minor := range kubernetesversion.SupportedVersions {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()

			cp := newControlPlane()
			cp.Spec.ProviderConfig = raw(&api.ControlPlaneConfig{
				TypeMeta:               api.TypeMeta("ControlPlaneConfig"),
				CloudControllerManager: &api.CloudControllerManagerConfig{FeatureGates: map[string]bool{"ContextualLogging": true, "AllAlpha": false}},
			})
			objects := render(t, cp, newCluster(
				api.VolumeClass{Name: "ceph", ExposeAs: "default", Default: true, SnapshotClass: "snap"}, api.VolumeClass{Name: "1e3", ExposeAs: "true", SnapshotClass: "null"},
			), minor+".0")

			ccm := one[*appsv1.Deployment](t, objects, kubevirt.CloudControllerManagerName)
			require.Contains(t, ccm.Spec.Template.Spec.Containers[0].Command, "--feature-gates=AllAlpha=false,ContextualLogging=true")
			require.Equal(t, identity.SecretName(kubevirt.CloudControllerManagerName), volume(t, ccm, "provider").Secret.SecretName)

			csi := one[*appsv1.Deployment](t, objects, kubevirt.CSIControllerName)
			require.Equal(t, identity.SecretName(kubevirt.CSIControllerName), volume(t, csi, "provider").Secret.SecretName)
			require.Contains(t, csi.Spec.Template.Spec.Containers[0].Args, "--infra-cluster-labels=kubevirt.provider.extensions.gardener.cloud/cluster=shoot--a--b")

			require.True(t, one[*appsv1.DaemonSet](t, objects, "csi-driver-node").Spec.Template.Spec.HostNetwork, "NetworkPolicies of the shoot deny the rest")

			class := one[*storagev1.StorageClass](t, objects, "default")
			require.Equal(t, map[string]string{"infraStorageClassName": "ceph", "bus": "scsi"}, class.Parameters)
			require.Equal(t, map[string]string{"infraSnapshotClassName": "snap"}, one[*snapshotv1.VolumeSnapshotClass](t, objects, "default").Parameters)
			require.Equal(t, "1e3", one[*storagev1.StorageClass](t, objects, "true").Parameters["infraStorageClassName"])
			require.Equal(t, "null", one[*snapshotv1.VolumeSnapshotClass](t, objects, "true").Parameters["infraSnapshotClassName"])
		})
	}
}

func volume(t *testing.T, d *appsv1.Deployment, name string) corev1.Volume {
	t.Helper()

	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return v
		}
	}

	require.Fail(t, "no volume "+name)

	return corev1.Volume{}
}

// TestSeedChart_AccountPaths requires each program to mount the token of its own account in the shoot.
func TestSeedChart_AccountPaths(t *testing.T) {
	t.Parallel()

	objects := render(t, newControlPlane(), newCluster(), "1.34.0")
	known := map[string]bool{}

	for _, program := range shootPrograms {
		known["shoot-access-"+program] = true
	}

	for _, name := range []string{kubevirt.CloudControllerManagerName, kubevirt.CSIControllerName, kubevirt.CSISnapshotControllerName} {
		d := one[*appsv1.Deployment](t, objects, name)

		for _, v := range d.Spec.Template.Spec.Volumes {
			if v.Projected != nil {
				require.Contains(t, known, v.Projected.Sources[1].Secret.Name)
				delete(known, v.Projected.Sources[1].Secret.Name)
			}
		}
	}

	require.Empty(t, known, "accounts without a program")
}

// TestCloudConfig passes on what the CloudProfile allows, and the Shoot wants of it.
func TestCloudConfig(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		config  *api.ControlPlaneConfig
		profile *api.CloudProfileConfig
		want    string
	}{
		"Default": {&api.ControlPlaneConfig{}, &api.CloudProfileConfig{}, "enabled: true"},
		"Without": {&api.ControlPlaneConfig{LoadBalancer: &api.LoadBalancerConfig{Disabled: true}}, &api.CloudProfileConfig{}, "enabled: false"},
		"Annotations": {
			&api.ControlPlaneConfig{LoadBalancer: &api.LoadBalancerConfig{AllowedAnnotations: []string{"metallb.io/a", "example.com/b"}}},
			&api.CloudProfileConfig{LoadBalancer: &api.OfferedLoadBalancer{AllowedAnnotations: []string{"metallb.io/*"}, Class: "example.com/lb"}},
			"enabled: true, allowedAnnotations: [metallb.io/a], class: example.com/lb",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := cloudConfig(tc.config, tc.profile, newControlPlane(), newCluster())
			require.NoError(t, err)
			require.YAMLEq(t, `
kubeconfig: /var/run/secrets/provider/kubeconfig
namespace: machines
infraLabels: {kubevirt.provider.extensions.gardener.cloud/cluster: shoot--a--b}
loadBalancer: {`+tc.want+`}
instancesV2: {enabled: true, zoneAndRegionEnabled: true}`, got)

			_, err = cloudprovider.ReadConfig([]byte(got))
			require.NoError(t, err)
		})
	}

	cp := newControlPlane()
	cp.Spec.InfrastructureProviderStatus = nil
	_, err := cloudConfig(&api.ControlPlaneConfig{}, &api.CloudProfileConfig{}, cp, newCluster())
	require.ErrorContains(t, err, "reconcile the Infrastructure")
}

// TestFeatureGates drops the gate of the 2020 user guide, with which cloud-controller-manager would not start.
func TestFeatureGates(t *testing.T) {
	t.Parallel()

	require.Equal(t, map[string]bool{"ContextualLogging": true}, featureGates(&api.ControlPlaneConfig{
		CloudControllerManager: &api.CloudControllerManagerConfig{FeatureGates: map[string]bool{"CustomResourceValidation": true, "ContextualLogging": true}},
	}))
}

// TestEnforcement allows the exposed classes only, each with its own snapshot class.
func TestEnforcement(t *testing.T) {
	t.Parallel()

	got, err := storageClassEnforcement(&api.CloudProfileConfig{VolumeClasses: []api.VolumeClass{
		{Name: "roots"}, {Name: "ceph", ExposeAs: "default", SnapshotClass: "snap"}, {Name: "ceph", ExposeAs: "retained", SnapshotClass: "other"}, {Name: "nvme", ExposeAs: "fast"},
	}})
	require.NoError(t, err)
	require.YAMLEq(t, `{allowAll: false, allowDefault: false, allowList: [ceph, nvme],
		storageSnapshotMapping: [{storageClasses: [ceph], volumeSnapshotClasses: [other, snap]}]}`, got)
}

func TestValuesProvider_InvalidConfigs(t *testing.T) {
	t.Parallel()

	p, _ := newProvider()

	cp := newControlPlane()
	cp.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"kubevirt.provider.extensions.gardener.cloud/v1alpha1","kind":"ControlPlaneConfig","loadBalancers":{}}`)}
	_, err := p.GetControlPlaneChartValues(t.Context(), cp, newCluster(), nil, nil, false)
	require.ErrorContains(t, err, "spec.provider.controlPlaneConfig.loadBalancers")

	// gardenlet reconciles the ControlPlane of a Shoot that is being deleted, whose spec is immutable.
	deleted := newCluster()
	deleted.Shoot.DeletionTimestamp = &metav1.Time{}
	_, certificates := newProvider()
	chartValues, err := p.GetControlPlaneChartValues(t.Context(), cp, deleted, certificates, nil, false)
	require.NoError(t, err)
	require.Contains(t, chartValues["cloudControllerManager"].(values)["config"], "enabled: true")

	_, err = p.GetStorageClassesChartValues(t.Context(), newControlPlane(), newCluster(api.VolumeClass{Name: "a", Default: true}))
	require.ErrorContains(t, err, "CloudProfile.spec.providerConfig.volumeClasses[0].exposeAs")
}
