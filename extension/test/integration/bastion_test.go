// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	controllermanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/controllermanager/v1alpha1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	controllermanager "github.com/gardener/gardener/pkg/controllermanager/controller/bastion"
	gardenlet "github.com/gardener/gardener/pkg/gardenlet/controller/bastion"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestBastion opens the bastions of two shoots in one namespace as gardenctl does, and lets one of them expire. The
// controllers of gardenlet and gardener-controller-manager are real, and so are the SSH client and server; the way between
// these through the load balancer is not simulated.
func TestBastion(t *testing.T) {
	t.Parallel()

	const isolated = "isolation: {enabled: true}"

	account := seed.AccountIn("bastions")
	first := newShootWith(t, account, oneMachine(t, "jump", isolated))
	second := newShootWith(t, account, oneMachine(t, "other", isolated))
	user := newUser(t)
	bastions := []*gardenBastion{newBastion(t, first, user), newBastion(t, second, user)}

	for i, shoot := range []*seed.Botanist{first, second} {
		require.NoError(t, shoot.Reconcile(t.Context()))
		requireReadyNodes(t, shoot, 1)
		bastions[i].open(t)
	}

	opened := bastions[0]
	require.Len(t, opened.objects(t), 6, "NetworkPolicy, Secret, Service, VirtualMachine, VirtualMachineInstance and its pod")
	require.Equal(t, []string{"192.0.2.7/32"}, opened.clients(t))
	user.requireLogin(t, opened.userData(t))

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

// gardenBastion is a Bastion in a garden, with Gardener's controllers for it.
type gardenBastion struct {
	shoot     *seed.Botanist
	object    *operationsv1alpha1.Bastion
	garden    client.Client
	gardenlet gardenlet.Reconciler
	expiry    controllermanager.Reconciler
}

// newBastion returns the Bastion that gardenctl creates, with the defaults of gardener-apiserver.
func newBastion(t *testing.T, shoot *seed.Botanist, u *user) *gardenBastion {
	t.Helper()

	b := &gardenBastion{shoot: shoot, object: &operationsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Object.Namespace, Name: "cli-abcdefgh", CreationTimestamp: metav1.Now()},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef:     corev1.LocalObjectReference{Name: shoot.Object.Name},
			ProviderType: ptr.To("kubevirt"),
			SSHPublicKey: u.publicKey,
			Ingress:      []operationsv1alpha1.BastionIngressPolicy{{IPBlock: networkingv1.IPBlock{CIDR: "192.0.2.7/32"}}},
		},
		Status: operationsv1alpha1.BastionStatus{ExpirationTimestamp: ptr.To(metav1.NewTime(time.Now().Add(time.Hour)))},
	}}
	b.garden = fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(shoot.Object.DeepCopy(), b.object).WithStatusSubresource(b.object).Build()
	b.gardenlet = gardenlet.Reconciler{GardenClient: b.garden, SeedClient: theSeed.Client, Clock: testclock.NewFakeClock(time.Now())}
	b.expiry = controllermanager.Reconciler{
		Client: b.garden,
		Config: controllermanagerconfigv1alpha1.BastionControllerConfiguration{MaxLifetime: &metav1.Duration{Duration: 24 * time.Hour}},
		Clock:  testclock.NewFakeClock(time.Now().Add(2 * time.Hour)),
	}

	return b
}

func (b *gardenBastion) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.object)}
}

// await runs gardenlet's controller until a check holds.
func (b *gardenBastion) await(t *testing.T, check func(err error) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		if _, err := b.gardenlet.Reconcile(ctx, b.request()); err != nil {
			return false, err.Error()
		}

		err := b.garden.Get(ctx, b.request().NamespacedName, b.object)

		return check(err), fmt.Sprint(err, b.object.Status)
	})
}

// open waits until the Bastion is ready, and its virtual machine runs.
func (b *gardenBastion) open(t *testing.T) {
	t.Helper()
	b.await(t, func(error) bool {
		ready := v1beta1helper.GetCondition(b.object.Status.Conditions, operationsv1alpha1.BastionReady)

		return ready != nil && ready.Status == gardencorev1beta1.ConditionTrue && b.object.Status.Ingress != nil
	})
	require.Equal(t, "192.0.2.1", b.object.Status.Ingress.IP)

	instances := &kubevirtv1.VirtualMachineInstanceList{}
	b.list(t, instances)
	require.Len(t, instances.Items, 1)
	require.True(t, instances.Items[0].IsRunning())
}

// admit replaces the address of the client.
func (b *gardenBastion) admit(t *testing.T, cidr string) {
	t.Helper()

	b.object.Spec.Ingress[0].IPBlock.CIDR = cidr
	require.NoError(t, b.garden.Update(t.Context(), b.object))
	b.await(t, func(error) bool { return slices.Equal(b.clients(t), []string{cidr}) })
}

// expire runs the controller of gardener-controller-manager two hours later.
func (b *gardenBastion) expire(t *testing.T) {
	t.Helper()

	_, err := b.expiry.Reconcile(t.Context(), b.request())
	require.NoError(t, err)
	b.await(t, apierrors.IsNotFound)
}

func (b *gardenBastion) delete(t *testing.T) {
	t.Helper()
	require.NoError(t, b.garden.Delete(t.Context(), b.object))
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

// userData returns the script that cloud-init runs in the virtual machine.
func (b *gardenBastion) userData(t *testing.T) string {
	t.Helper()

	instances := &kubevirtv1.VirtualMachineInstanceList{}
	b.list(t, instances)

	volumes := instances.Items[0].Spec.Volumes
	i := slices.IndexFunc(volumes, func(v kubevirtv1.Volume) bool { return v.CloudInitNoCloud != nil })

	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: b.shoot.ProviderNamespace, Name: volumes[i].CloudInitNoCloud.UserDataSecretRef.Name}
	require.NoError(t, theSeed.Provider.Get(t.Context(), key, secret))

	message, err := mail.ReadMessage(bytes.NewReader(secret.Data["userdata"]))
	require.NoError(t, err)

	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	require.NoError(t, err)

	parts := multipart.NewReader(message.Body, parameters["boundary"])
	_, err = parts.NextPart() // the host key
	require.NoError(t, err)

	part, err := parts.NextPart()
	require.NoError(t, err)

	script, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(script), "#!/bin/bash"))

	return string(script)
}
