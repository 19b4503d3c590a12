// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// publicKey is the key of a user of gardenctl.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPdNbeQ7Nf3U6kdIBqUFRkBkl3fZCSn8zhp0FCdoZy0Q"

// TestBastion opens the bastions of two shoots in one namespace as gardenctl does, and lets one of them expire. The
// controllers of gardenlet and gardener-controller-manager are real. Users log in through bastions on real nodes (test/node).
func TestBastion(t *testing.T) {
	t.Parallel()

	const isolated = "isolation: {enabled: true}"

	account := seed.AccountIn("bastions")
	first := newShootWith(t, account, oneMachine(t, "jump", isolated))
	second := newShootWith(t, account, oneMachine(t, "other", isolated))
	bastions := []*gardenBastion{{first.NewBastion(publicKey, "192.0.2.7/32"), first}, {second.NewBastion(publicKey, "192.0.2.7/32"), second}}

	for i, shoot := range []*seed.Botanist{first, second} {
		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, 1)
		bastions[i].open(t)
	}

	opened := bastions[0]
	require.Len(t, opened.objects(t), 6, "NetworkPolicy, Secret, Service, VirtualMachine, VirtualMachineInstance and its pod")
	require.Equal(t, []string{"192.0.2.7/32"}, opened.clients(t))
	opened.admit(t, "192.0.2.8/32")

	// Neither an infrastructure without changes nor machine-controller-manager touches it.
	before := opened.objects(t)
	require.NoError(t, first.Reconcile(t.Context()))
	requireReadyNodes(t, first, 1)
	require.Equal(t, before, opened.objects(t))

	others := bastions[1].objects(t)
	opened.expire(t)
	require.Empty(t, opened.objects(t))
	require.Equal(t, others, bastions[1].objects(t))

	bastions[1].delete(t)
	require.NoError(t, first.Delete(t.Context()))
	requireNothingLeft(t, second)
}

// gardenBastion is a Bastion of a shoot.
type gardenBastion struct {
	*seed.Bastion

	shoot *seed.Botanist
}

// await runs gardenlet's controller until a check holds.
func (b *gardenBastion) await(t *testing.T, check func(err error) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		err := b.Reconcile(ctx)

		return check(err), fmt.Sprint(err, b.Object.Status)
	})
}

// open waits until the Bastion is ready, and its virtual machine runs.
func (b *gardenBastion) open(t *testing.T) {
	t.Helper()
	b.await(t, func(error) bool {
		ready := v1beta1helper.GetCondition(b.Object.Status.Conditions, operationsv1alpha1.BastionReady)

		return ready != nil && ready.Status == gardencorev1beta1.ConditionTrue && b.Object.Status.Ingress != nil
	})
	require.Equal(t, "192.0.2.1", b.Object.Status.Ingress.IP)

	instances := &kubevirtv1.VirtualMachineInstanceList{}
	b.list(t, instances)
	require.Len(t, instances.Items, 1)
	require.True(t, instances.Items[0].IsRunning())
}

// admit replaces the address of the client.
func (b *gardenBastion) admit(t *testing.T, cidr string) {
	t.Helper()

	require.NoError(t, b.Admit(t.Context(), cidr))
	b.await(t, func(error) bool { return slices.Equal(b.clients(t), []string{cidr}) })
}

// expire lets the Bastion expire.
func (b *gardenBastion) expire(t *testing.T) {
	t.Helper()
	require.NoError(t, b.Expire(t.Context()))
	b.await(t, apierrors.IsNotFound)
}

func (b *gardenBastion) delete(t *testing.T) {
	t.Helper()
	require.NoError(t, b.Delete(t.Context()))
	b.await(t, apierrors.IsNotFound)
}

// list reads objects of the shoot's bastions in the provider cluster.
func (b *gardenBastion) list(t *testing.T, list client.ObjectList) {
	t.Helper()
	require.NoError(t, theSeed.Provider.List(t.Context(), list, append(ownedBy(b.shoot), client.HasLabels{"kubevirt.provider.extensions.gardener.cloud/bastion"})...))
}

// objects returns the UIDs of the objects of the bastion in the provider cluster.
func (b *gardenBastion) objects(t *testing.T) (uids []string) {
	t.Helper()

	for _, list := range []client.ObjectList{
		&networkingv1.NetworkPolicyList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &kubevirtv1.VirtualMachineList{}, &kubevirtv1.VirtualMachineInstanceList{}, &corev1.PodList{},
	} {
		b.list(t, list)
		require.NoError(t, meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			uids = append(uids, fmt.Sprintf("%T %s", item, object.GetUID()))

			return err
		}))
	}

	return uids
}

// clients returns the ranges that both the NetworkPolicy and the load balancer admit.
func (b *gardenBastion) clients(t *testing.T) (cidrs []string) {
	t.Helper()

	policies := &networkingv1.NetworkPolicyList{}
	services := &corev1.ServiceList{}
	b.list(t, policies)
	b.list(t, services)
	require.Len(t, policies.Items, 1)
	require.Len(t, services.Items, 1)

	for _, rule := range policies.Items[0].Spec.Ingress {
		for _, peer := range rule.From {
			if slices.Contains(services.Items[0].Spec.LoadBalancerSourceRanges, peer.IPBlock.CIDR) {
				cidrs = append(cidrs, peer.IPBlock.CIDR)
			}
		}
	}

	return cidrs
}
