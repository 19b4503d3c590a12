// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// oneMachine returns the Shoot of shoot.yaml with another name, one machine and an InfrastructureConfig.
func oneMachine(t *testing.T, name, infrastructure string) *gardencorev1beta1.Shoot {
	t.Helper()

	object := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, object))
	named(name)(object)

	w := &object.Spec.Provider.Workers[0]
	w.Minimum, w.Zones = 1, w.Zones[:1]
	object.Spec.Provider.InfrastructureConfig = config(t, "InfrastructureConfig", infrastructure)

	return object
}

// TestTwoShootsInOneNamespace deletes one of two shoots whose machines and networks have one namespace.
func TestTwoShootsInOneNamespace(t *testing.T) {
	t.Parallel()

	const network = `networks: {tenantNetworks: [{name: net, config: '{"cniVersion": "0.4.0", "name": "net", "type": "bridge"}'}]}`

	account := seed.AccountIn("two-shoots")
	first := newShootWith(t, account, oneMachine(t, "first", network))
	second := newShootWith(t, account, oneMachine(t, "second", network))

	for _, shoot := range []*seed.Botanist{first, second} {
		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, 1)
	}

	before := machines(t, second)
	networks := networksOf(t, second)
	volumes := volumesOf(t, second)
	require.Equal(t, []string{second.Namespace + "-net"}, networks)
	require.NotEmpty(t, volumes)

	require.NoError(t, first.Delete(t.Context()))
	require.Empty(t, machines(t, first))
	require.Empty(t, networksOf(t, first))
	eventually(t, func(ctx context.Context) (bool, string) { // Garbage collection deletes the disks.
		left, err := findVolumes(ctx, first)

		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	})

	require.NoError(t, second.Reconcile(t.Context()))
	require.Equal(t, before, machines(t, second))
	require.Equal(t, networks, networksOf(t, second))
	require.Equal(t, volumes, volumesOf(t, second))

	requireNothingLeft(t, second)
}

// TestNamespacePerShoot creates a shoot in a namespace of its own, with isolation.
func TestNamespacePerShoot(t *testing.T) {
	t.Parallel()

	shoot := newShootWith(t, seed.AccountForNamespaces(), oneMachine(t, "own", "namespace: {create: true}\nisolation: {enabled: true, allowedCIDRs: [10.1.0.0/16]}"))
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 1)
	require.Equal(t, shoot.Namespace, onlyMachine(t, shoot).Namespace)

	policies := &networkingv1.NetworkPolicyList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), policies, ownedBy(shoot)...))
	require.Len(t, policies.Items, 1)
	require.Equal(t, "10.1.0.0/16", policies.Items[0].Spec.Egress[0].To[1].IPBlock.CIDR)

	requireNothingLeft(t, shoot)
	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Provider.Get(ctx, client.ObjectKey{Name: shoot.Namespace}, &corev1.Namespace{})

		return apierrors.IsNotFound(err), "the namespace exists"
	})
}

// ownedBy selects the objects that the extension created for a shoot, except for golden images.
func ownedBy(s *seed.Botanist) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.ProviderNamespace), client.MatchingLabels{"kubevirt.provider.extensions.gardener.cloud/cluster": s.Namespace}}
}

// networksOf returns the names of the shoot's networks.
func networksOf(t *testing.T, s *seed.Botanist) []string {
	t.Helper()

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"})
	require.NoError(t, theSeed.Provider.List(t.Context(), list, ownedBy(s)...))

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}

	return names
}

// volumesOf returns the names of the shoot's DataVolumes: the golden image and the disks.
func volumesOf(t *testing.T, s *seed.Botanist) []string {
	t.Helper()

	names, err := findVolumes(t.Context(), s)
	require.NoError(t, err)

	return names
}

func findVolumes(ctx context.Context, s *seed.Botanist) (names []string, _ error) {
	list := &cdiv1beta1.DataVolumeList{}
	if err := theSeed.Provider.List(ctx, list, of(s)...); err != nil {
		return nil, err
	}

	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}

	return names, nil
}
