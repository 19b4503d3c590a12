package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestPowerOffLeavesForeignVirtualMachines requests the power-off of an instance whose
// VirtualMachine has lost the shoot's tags, and then of one without a VirtualMachine.
func TestPowerOffLeavesForeignVirtualMachines(t *testing.T) {
	t.Parallel()

	s, provider := newShoot(t), newProvider(settings{grace: time.Minute})
	m, d := s.newMachine("zone-a", ephemeralRoot), driverOn(provider, settings{})
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)
	m.awaitScheduled(t, d)

	kubeconfig, err := lab.AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	require.NotEmpty(t, kubeconfig)

	evacuations, err := provider.WatchEvacuations(t.Context(), &spi.WatchEvacuationsInput{
		Kubeconfig: s.ProviderKubeconfig, Identity: spi.Identity{Cluster: s.Namespace, Role: "node"},
	}, func() {})
	require.NoError(t, err)

	instances := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace)
	instance, err := instances.Get(t.Context(), m.name(), metav1.GetOptions{})
	require.NoError(t, err)

	asked := &spi.Evacuation{Machine: m.name(), UID: instance.UID}

	s.labelVM(t, m.name(), `{"mcm.gardener.cloud/cluster":"another"}`)
	require.ErrorIs(t, evacuations.PowerOff(t.Context(), asked), spi.ErrForeign)

	instance, err = instances.Get(t.Context(), m.name(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, instance.DeletionTimestamp, "it belongs to another's VirtualMachine, which would start it again")

	s.labelVM(t, m.name(), `{"mcm.gardener.cloud/cluster":"`+s.Namespace+`"}`)
	s.deleteWithoutInstance(t, m.name())
	require.NoError(t, evacuations.PowerOff(t.Context(), asked))
	require.NoError(t, m.remove(t.Context(), d))
	s.requireNothingLeft(t)
}

func (s *shoot) labelVM(t *testing.T, name, labels string) {
	t.Helper()

	_, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}
