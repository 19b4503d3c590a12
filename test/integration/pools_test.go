package integration

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// poolLabel is Gardener's label of a worker pool's nodes. All shoots of the lab share one target cluster, so that a pool's name must
// be unique there.
const poolLabel = "worker.gardener.cloud/pool"

// addPool makes a MachineDeployment, with a class for the given ProviderSpec, whose nodes carry its name as their pool's.
func (s *shoot) addPool(t *testing.T, name string, replicas int32, spec []byte) {
	t.Helper()

	class := &v1alpha1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provider:             "kubevirt",
		ProviderSpec:         runtime.RawExtension{Raw: spec},
		CredentialsSecretRef: &corev1.SecretReference{Name: "cloudprovider", Namespace: s.Namespace},
		SecretRef:            &corev1.SecretReference{Name: "example-worker-userdata", Namespace: s.Namespace},
	}
	_, err := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)

	labels, one, none := map[string]string{"name": name}, intstr.FromInt32(1), intstr.FromInt32(0)
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MachineDeploymentSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: v1alpha1.MachineDeploymentStrategy{
				Type: v1alpha1.RollingUpdateMachineDeploymentStrategyType,
				RollingUpdate: &v1alpha1.RollingUpdateMachineDeployment{
					UpdateConfiguration: v1alpha1.UpdateConfiguration{MaxSurge: &one, MaxUnavailable: &none},
				},
			},
			Template: v1alpha1.MachineTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1alpha1.MachineSpec{
					Class: v1alpha1.ClassSpec{Kind: "MachineClass", Name: name},
					NodeTemplateSpec: v1alpha1.NodeTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{poolLabel: name}},
					},
				},
			},
		},
	}
	_, err = s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	require.NoError(t, err)
}
