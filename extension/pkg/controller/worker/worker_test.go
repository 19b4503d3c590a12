// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	seedNamespace     = "shoot--garden-dev--johndoe-kubevirt"
	providerNamespace = "my-shoot"
)

// setting is the input of the controller: a Worker, its Cluster, and the parts that other components
// wrote.
type setting struct {
	worker  *extensionsv1alpha1.Worker
	cluster *extensionscontroller.Cluster
	profile *api.CloudProfileConfig
	status  *api.InfrastructureStatus
	used    *api.WorkerStatus // nil if the Worker has no status
	config  string            // the WorkerConfig of the pool, in YAML
}

// guide is the example of the 2020 user guide: one pool in one zone.
func guide() *setting {
	return &setting{
		worker: &extensionsv1alpha1.Worker{
			ObjectMeta: metav1.ObjectMeta{Namespace: seedNamespace, Name: "johndoe-kubevirt"},
			Spec: extensionsv1alpha1.WorkerSpec{
				DefaultSpec:  extensionsv1alpha1.DefaultSpec{Type: "kubevirt"},
				Region:       "europe-west1",
				SecretRef:    corev1.SecretReference{Namespace: seedNamespace, Name: "cloudprovider"},
				SSHPublicKey: []byte("ssh-ed25519 AAAA johndoe"),
				Pools: []extensionsv1alpha1.WorkerPool{{
					Name: "cpu-worker", MachineType: "standard-1", Minimum: 1, Maximum: 2,
					MaxSurge: intstr.FromInt32(1), MaxUnavailable: intstr.FromInt32(0),
					MachineImage:        extensionsv1alpha1.MachineImage{Name: "ubuntu", Version: "18.04"},
					KubernetesVersion:   ptr.To("1.34.2"),
					NodeAgentSecretName: ptr.To("gardener-node-agent-cpu-worker-77ac3"),
					UserDataSecretRef:   corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "osc"}, Key: "cloud_config"},
					Volume:              &extensionsv1alpha1.Volume{Type: ptr.To("default"), Size: "20Gi"},
					Zones:               []string{"europe-west1-c"},
				}},
			},
		},
		cluster: &extensionscontroller.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: seedNamespace},
			CloudProfile: &gardencorev1beta1.CloudProfile{Spec: gardencorev1beta1.CloudProfileSpec{
				MachineTypes: []gardencorev1beta1.MachineType{{
					Name: "standard-1", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("4Gi"),
				}},
				VolumeTypes: []gardencorev1beta1.VolumeType{{Name: "default", Class: "default"}, {Name: "fast", Class: "nvme"}},
			}},
			Shoot: &gardencorev1beta1.Shoot{
				Spec: gardencorev1beta1.ShootSpec{
					Kubernetes: gardencorev1beta1.Kubernetes{Version: "1.34.2"},
					Provider:   gardencorev1beta1.Provider{Workers: []gardencorev1beta1.Worker{{Name: "cpu-worker"}}},
				},
				Status: gardencorev1beta1.ShootStatus{TechnicalID: seedNamespace},
			},
		},
		profile: &api.CloudProfileConfig{
			TypeMeta: api.TypeMeta("CloudProfileConfig"),
			MachineImages: []api.MachineImages{{Name: "ubuntu", Versions: []api.MachineImageVersion{{
				Version: "18.04", ImageSource: api.ImageSource{SourceURL: "https://images.example.com/bionic.img"},
			}}}},
		},
		status: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Namespace: providerNamespace},
	}
}

func (s *setting) pool() *extensionsv1alpha1.WorkerPool { return &s.worker.Spec.Pools[0] }

func (s *setting) machineType() *gardencorev1beta1.MachineType {
	return &s.cluster.CloudProfile.Spec.MachineTypes[0]
}

// delegate returns the delegate of the controller, with a seed that has the user data, and a
// provider cluster with the given objects.
func (s *setting) delegate(t *testing.T, inProvider ...client.Object) *delegate {
	t.Helper()

	if s.config != "" {
		raw, err := yaml.YAMLToJSON([]byte("apiVersion: " + api.SchemeGroupVersion.String() + "\nkind: WorkerConfig\n" + s.config))
		require.NoError(t, err)

		s.pool().ProviderConfig = &runtime.RawExtension{Raw: raw}
	}

	s.cluster.CloudProfile.Spec.ProviderConfig = rawOf(t, s.profile)
	s.worker.Spec.InfrastructureProviderStatus = rawOf(t, s.status)

	if s.used != nil {
		s.worker.Status.ProviderStatus = rawOf(t, s.used)
	}

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, machinev1alpha1.AddToScheme, extensionsv1alpha1.AddToScheme, api.AddToScheme} {
		require.NoError(t, add(scheme))
	}

	userData := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: seedNamespace, Name: "osc"}, Data: map[string][]byte{"cloud_config": []byte("#cloud-config\n")}}
	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(userData, s.worker.DeepCopy()).WithStatusSubresource(s.worker).Build()
	provider := &providercluster.Cluster{Client: fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(inProvider...).Build(), Namespace: providerNamespace}
	factory := &delegateFactory{seed: seed, newProviderCluster: func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
		return provider, nil
	}}

	d, err := factory.WorkerDelegate(t.Context(), s.worker, s.cluster)
	require.NoError(t, err)

	made, ok := d.(*delegate)
	require.True(t, ok)

	return made
}

func rawOf(t *testing.T, object any) *runtime.RawExtension {
	t.Helper()

	raw, err := json.Marshal(object)
	require.NoError(t, err)

	return &runtime.RawExtension{Raw: raw}
}

// specs returns the ProviderSpecs of the classes, as the driver reads them.
func (s *setting) specs(t *testing.T) []*providerspec.ProviderSpec {
	t.Helper()

	w, err := s.delegate(t).generated(t.Context())
	require.NoError(t, err)

	var specs []*providerspec.ProviderSpec

	for _, c := range w.classes {
		spec, errs := validation.Decode(c.object.ProviderSpec.Raw, validation.Options{Template: validation.TemplateSafe, Evacuation: s.status.Evacuation})
		require.Empty(t, errs, "the driver accepts the class")

		specs = append(specs, spec)
	}

	return specs
}

// TestWorkerDelegate_GuideOf2020 turns the Shoot of the user guide into a MachineDeployment and a MachineClass.
func TestWorkerDelegate_GuideOf2020(t *testing.T) {
	t.Parallel()

	d := guide().delegate(t)
	deployments, err := d.GenerateMachineDeployments(t.Context())
	require.NoError(t, err)
	require.Len(t, deployments, 1)

	deployment := deployments[0]
	require.Equal(t, seedNamespace+"-cpu-worker-z1", deployment.Name)
	require.Regexp(t, "^"+deployment.Name+"-[0-9a-f]{5}$", deployment.ClassName)
	require.Equal(t, deployment.ClassName, deployment.SecretName)
	require.EqualValues(t, 1, deployment.Minimum)
	require.EqualValues(t, 2, deployment.Maximum)
	require.Equal(t, map[string]string{"cluster.x-k8s.io/cluster-namespace": providerNamespace}, deployment.Annotations, "KubeVirt's CSI driver needs it")

	require.NoError(t, d.DeployMachineClasses(t.Context()))

	class := &machinev1alpha1.MachineClass{}
	require.NoError(t, d.seed.Get(t.Context(), client.ObjectKey{Namespace: seedNamespace, Name: deployment.ClassName}, class))
	require.Equal(t, "kubevirt", class.Provider)
	require.Equal(t, &corev1.SecretReference{Namespace: seedNamespace, Name: deployment.ClassName}, class.SecretRef)
	require.Equal(t, &corev1.SecretReference{Namespace: seedNamespace, Name: "cloudprovider"}, class.CredentialsSecretRef)
	require.Equal(t, "standard-1", class.NodeTemplate.InstanceType)
	require.Equal(t, "europe-west1", class.NodeTemplate.Region)
	require.Equal(t, "europe-west1-c", class.NodeTemplate.Zone)
	require.Equal(t, "amd64", *class.NodeTemplate.Architecture)
	require.Equal(t, "0", class.NodeTemplate.Capacity.Name("gpu", resource.DecimalSI).String())

	secret := &corev1.Secret{}
	require.NoError(t, d.seed.Get(t.Context(), client.ObjectKey{Namespace: seedNamespace, Name: deployment.ClassName}, secret))
	require.Equal(t, map[string][]byte{"userData": []byte("#cloud-config\n")}, secret.Data, "the kubeconfig stays in cloudprovider")
	require.Equal(t, "machineclass", secret.Labels["gardener.cloud/purpose"], "the generic actuator deletes Secrets by this label")

	spec := guide().specs(t)[0]
	require.Equal(t, map[string]string{"mcm.gardener.cloud/cluster": seedNamespace, "mcm.gardener.cloud/role": "node"}, spec.Tags)
	require.Equal(t, "https://images.example.com/bionic.img", spec.RootVolume.Source.HTTP.URL)
	require.Equal(t, "default", *spec.RootVolume.Storage.StorageClassName)
	require.Equal(t, "20Gi", spec.RootVolume.Size().String())
	require.Equal(t, "4Gi", spec.Resources.Requests.Memory().String())
	require.Equal(t, []string{"ssh-ed25519 AAAA johndoe"}, spec.SSHKeys)
	require.True(t, spec.UsesGoldenImage())
}

// TestAddPool_Zones distributes the numbers of a pool over its zones.
func TestAddPool_Zones(t *testing.T) {
	t.Parallel()

	s := guide()
	s.pool().Zones = []string{"a", "b", "c"}
	s.pool().Minimum, s.pool().Maximum, s.pool().MaxSurge = 4, 8, intstr.FromInt32(4)

	deployments, err := s.delegate(t).GenerateMachineDeployments(t.Context())
	require.NoError(t, err)
	require.Len(t, deployments, 3)

	for i, want := range []struct{ minimum, maximum, surge int32 }{{2, 3, 2}, {1, 3, 1}, {1, 2, 1}} {
		require.Equal(t, want.minimum, deployments[i].Minimum)
		require.Equal(t, want.maximum, deployments[i].Maximum)
		require.EqualValues(t, want.surge, deployments[i].Strategy.RollingUpdate.MaxSurge.IntValue())
	}

	specs := s.specs(t)
	require.Equal(t, "a", specs[0].Zone)
	require.Equal(t, "c", specs[2].Zone)
}

// TestDeploymentOf_Settings requires the settings of nodes and of cluster-autoscaler on the
// MachineDeployment or in the node template, where changing them does not replace machines.
func TestDeploymentOf_Settings(t *testing.T) {
	t.Parallel()

	s := guide()
	p := s.pool()
	p.Labels, p.Annotations = map[string]string{"team": "blue"}, map[string]string{"owner": "blue"}
	p.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
	p.Priority = ptr.To[int32](7)
	p.ClusterAutoscaler = &extensionsv1alpha1.ClusterAutoscalerOptions{ScaleDownUtilizationThreshold: ptr.To("0.4")}
	p.MachineControllerManagerSettings = &gardencorev1beta1.MachineControllerManagerSettings{MaxEvictRetries: ptr.To[int32](3)}
	s.config = "cpu: {sockets: 2, cores: 3}\nnodeTemplate: {capacity: {example.com/device: 1}, virtualCapacity: {example.com/virtual: 2}}"

	d := s.delegate(t)
	deployments, err := d.GenerateMachineDeployments(t.Context())
	require.NoError(t, err)

	deployment := deployments[0]
	require.Equal(t, map[string]string{
		"team": "blue", "topology.kubernetes.io/region": "europe-west1", "topology.kubernetes.io/zone": "europe-west1-c",
	}, deployment.Labels)
	require.Equal(t, "blue", deployment.Annotations["owner"])
	require.Equal(t, p.Taints, deployment.Taints)
	require.EqualValues(t, 7, *deployment.Priority)
	require.Equal(t, "0.4", deployment.ClusterAutoscalerAnnotations["autoscaler.gardener.cloud/scale-down-utilization-threshold"])
	require.EqualValues(t, 3, *deployment.MachineConfiguration.MaxEvictRetries)

	s.worker.Spec.Region, p.Zones = "default", []string{"default"}
	deployments, err = s.delegate(t).GenerateMachineDeployments(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "blue"}, deployments[0].Labels, "the provider nodes have no such labels")

	template := d.desired.classes[0].object.NodeTemplate
	require.Equal(t, "6", template.Capacity.Cpu().String(), "the guest has as many CPUs")
	require.Equal(t, "1", template.Capacity.Name("example.com/device", resource.DecimalSI).String())
	require.Equal(t, "2", template.VirtualCapacity.Name("example.com/virtual", resource.DecimalSI).String())
}

// TestPreReconcileHook_CreatesClasses creates classes before the generic actuator looks for existing ones.
func TestPreReconcileHook_CreatesClasses(t *testing.T) {
	t.Parallel()

	d := guide().delegate(t)
	require.NoError(t, d.PreReconcileHook(t.Context()))

	classes := &machinev1alpha1.MachineClassList{}
	require.NoError(t, d.seed.List(t.Context(), classes, client.InNamespace(seedNamespace)))
	require.Len(t, classes.Items, 1)
}

// TestStrategy_InPlaceUpdates requires in-place updates to keep the virtual machines of a pool.
func TestStrategy_InPlaceUpdates(t *testing.T) {
	t.Parallel()

	for strategy, want := range map[gardencorev1beta1.MachineUpdateStrategy]machinev1alpha1.OrchestrationType{
		gardencorev1beta1.AutoInPlaceUpdate: machinev1alpha1.OrchestrationTypeAuto, gardencorev1beta1.ManualInPlaceUpdate: machinev1alpha1.OrchestrationTypeManual,
	} {
		s := guide()
		s.pool().UpdateStrategy = &strategy

		deployments, err := s.delegate(t).GenerateMachineDeployments(t.Context())
		require.NoError(t, err)
		require.Equal(t, machinev1alpha1.InPlaceUpdateMachineDeploymentStrategyType, deployments[0].Strategy.Type)
		require.Equal(t, want, deployments[0].Strategy.InPlaceUpdate.OrchestrationType)
	}
}

// TestActuator_DeletesInvalidConfiguration requires that an invalid configuration, which can no longer
// be corrected, does not prevent the deletion of a shoot.
func TestActuator_DeletesInvalidConfiguration(t *testing.T) {
	t.Parallel()

	s := guide()
	s.config = "cpus: {cores: 2}"
	now := metav1.Now()
	s.worker.DeletionTimestamp, s.worker.Finalizers = &now, []string{"extensions.gardener.cloud/worker"}

	d := s.delegate(t)
	require.NoError(t, d.DeployMachineClasses(t.Context()))

	deployments, err := d.GenerateMachineDeployments(t.Context())
	require.NoError(t, err)
	require.Empty(t, deployments)

	hasMachines, err := d.hasMachines(t.Context())
	require.NoError(t, err)
	require.False(t, hasMachines, "the generic actuator would wait until machine-controller-manager uses the credentials")

	require.NoError(t, d.seed.Create(t.Context(), &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: seedNamespace, Name: "m"}}))

	hasMachines, err = d.hasMachines(t.Context())
	require.NoError(t, err)
	require.True(t, hasMachines)
}

// TestGenerated_TooManyClasses bounds the objects of a Shoot that has not passed the admission. It can be
// deleted.
func TestGenerated_TooManyClasses(t *testing.T) {
	t.Parallel()

	zones := func(count int) []string {
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprintf("europe-west1-%d", i)
		}

		return names
	}

	tests := map[string]struct {
		reason string
		change func(*setting)
		remedy string
	}{
		"Zones": {"a class for each zone", func(s *setting) { s.pool().Zones = zones(1001) }, "use fewer pools or zones"},
		"Config": {"a long configuration in each class", func(s *setting) {
			s.pool().Zones, s.config = zones(20), "cpu: {features: ["+strings.Repeat("a, ", 1<<14)+"a]}"
		}, "shorten providerConfig"},
		"Labels": {"long labels in each MachineDeployment", func(s *setting) {
			s.pool().Zones, s.pool().Labels = zones(20), map[string]string{"a": strings.Repeat("a", 256<<10)}
		}, "labels"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := guide()
			tc.change(s)

			_, err := s.delegate(t).GenerateMachineDeployments(t.Context())
			require.ErrorContains(t, err, "spec.provider.workers: ", tc.reason)
			require.ErrorContains(t, err, tc.remedy)
			require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err))

			now := metav1.Now()
			s.worker.DeletionTimestamp, s.worker.Finalizers = &now, []string{"extensions.gardener.cloud/worker"}

			deployments, err := s.delegate(t).GenerateMachineDeployments(t.Context())
			require.NoError(t, err)
			require.Less(t, len(deployments), 20, "no more than fit")
		})
	}
}
