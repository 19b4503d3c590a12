// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestPowerOffLeavesForeignVirtualMachines requests the power-off of an instance whose
// VirtualMachine has lost the shoot's tags, and then of one without a VirtualMachine.
func TestPowerOffLeavesForeignVirtualMachines(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	m.AwaitScheduled(t, d)

	kubeconfig, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	require.NotEmpty(t, kubeconfig)

	evacuations, err := harness.NewEvacuator().WatchEvacuations(t.Context(), &spi.WatchEvacuationsInput{
		Kubeconfig: s.ProviderKubeconfig,
		Identity:   spi.Identity{Cluster: s.Namespace, Role: "node"},
	}, func() {})
	require.NoError(t, err)

	instances := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace)
	instance, err := instances.Get(t.Context(), m.Name(), metav1.GetOptions{})
	require.NoError(t, err)

	asked := &spi.Evacuation{Machine: m.Name(), UID: instance.UID}

	labelVM(t, s, m.Name(), `{"mcm.gardener.cloud/cluster":"another"}`)
	require.ErrorIs(t, evacuations.PowerOff(t.Context(), asked), spi.ErrForeign)

	instance, err = instances.Get(t.Context(), m.Name(), metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, instance.DeletionTimestamp, "it belongs to a foreign VirtualMachine, which would start it again")

	labelVM(t, s, m.Name(), `{"mcm.gardener.cloud/cluster":"`+s.Namespace+`"}`)
	s.DeleteWithoutInstance(t, m.Name())
	require.NoError(t, evacuations.PowerOff(t.Context(), asked))
	require.NoError(t, m.Remove(t.Context(), d))
	s.RequireNothingLeft(t)
}

func labelVM(t *testing.T, s *harness.Shoot, name, labels string) {
	t.Helper()

	_, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}
