// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestGuide applies the manifests of the documentation to the garden: those of the 2020 user guide. The
// stored Shoot becomes a running machine with a Ready Node, and is deleted.
func TestGuide(t *testing.T) {
	t.Parallel()

	require.NoError(t, theSeed.SharedNetwork(t.Context(), "net-conf"))

	applyLandscape(t)

	manifest, err := theSeed.Manifest(seed.ExampleShoot)
	require.NoError(t, err)
	require.NoError(t, theSeed.Apply(t.Context(), manifest))

	shoot, err := theSeed.Adopt(t.Context(), client.ObjectKey{Namespace: "garden-dev", Name: "johndoe-kubevirt"})
	require.NoError(t, err)
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)
	requireGuideMachine(t, shoot)

	require.NoError(t, shoot.RequestDeletion(t.Context()))
	requireNothingLeft(t, shoot)
	require.NoError(t, theSeed.Release(t.Context(), client.ObjectKeyFromObject(shoot.Object)))
	require.True(t, apierrors.IsNotFound(theSeed.Garden.Get(t.Context(), client.ObjectKeyFromObject(shoot.Object), &gardencorev1beta1.Shoot{})))
}

var (
	// landscapeAccount is the account of the credentials in the manifests of the documentation.
	landscapeAccount = seed.AccountIn("johndoe-kubevirt")
	applied          sync.Mutex
	isApplied        bool
)

// applyLandscape applies the manifests of the documentation that several Shoots use, once.
func applyLandscape(t *testing.T) {
	t.Helper()
	applied.Lock()
	defer applied.Unlock()

	if !isApplied {
		require.NoError(t, theSeed.ApplyLandscape(t.Context(), landscapeAccount))
		awaitLandscape(t)
	}

	isApplied = true
}

// awaitLandscape waits until gardener-apiserver, which has a cache, accepts Shoots that refer to the
// landscape.
func awaitLandscape(t *testing.T) {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, shoot))
	shoot.Name = "any"
	shoot.Spec.CredentialsBindingName = ptr.To("core-kubevirt")

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Garden.Create(ctx, shoot.DeepCopy(), client.DryRunAll)

		return err == nil, fmt.Sprint(err)
	})
}

// requireGuideMachine requires the fields of the virtual machine that the guide's Shoot sets.
func requireGuideMachine(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

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
}

// disksOf returns the names of a virtual machine's disks.
func disksOf(vm *kubevirtv1.VirtualMachine) []string {
	var names []string
	for _, disk := range vm.Spec.Template.Spec.Domain.Devices.Disks {
		names = append(names, disk.Name)
	}

	return names
}
