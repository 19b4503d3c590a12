package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestGuide turns the Shoot of the 2020 user guide into a running machine with a Ready Node, and
// deletes it.
func TestGuide(t *testing.T) {
	t.Parallel()

	require.NoError(t, theSeed.SharedNetwork(t.Context(), "net-conf"))

	shoot := newShoot(t, "guide.yaml")
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)

	vm := onlyMachine(t, shoot)
	domain := vm.Spec.Template.Spec.Domain
	require.Equal(t, "europe-west1-c", vm.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
		NodeSelectorTerms[0].MatchExpressions[1].Values[0])
	require.EqualValues(t, 2, domain.CPU.Sockets)
	require.Equal(t, []kubevirtv1.CPUFeature{{Name: "pcid"}}, domain.CPU.Features)
	require.Equal(t, "2Mi", domain.Memory.Hugepages.PageSize)
	require.Len(t, vm.Spec.DataVolumeTemplates, 2)
	require.Equal(t, "10Gi", vm.Spec.DataVolumeTemplates[1].Spec.Storage.Resources.Requests.Storage().String())
	require.Contains(t, disksOf(vm), "volume-1")
	require.Equal(t, "amd64", vm.Spec.Template.Spec.Architecture)
	require.Equal(t, "europe-west1", vm.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
		NodeSelectorTerms[0].MatchExpressions[0].Values[0])
	require.Len(t, vm.Spec.Template.Spec.Networks, 2)
	require.Equal(t, shoot.ProviderNamespace+"/"+shoot.Namespace+"-network-1", vm.Spec.Template.Spec.Networks[0].Multus.NetworkName)
	require.True(t, vm.Spec.Template.Spec.Networks[0].Multus.Default)
	require.Equal(t, "default/net-conf", vm.Spec.Template.Spec.Networks[1].Multus.NetworkName)

	requireNothingLeft(t, shoot)
}

// disksOf returns the names of a virtual machine's disks.
func disksOf(vm *kubevirtv1.VirtualMachine) []string {
	var names []string
	for _, disk := range vm.Spec.Template.Spec.Domain.Devices.Disks {
		names = append(names, disk.Name)
	}

	return names
}
