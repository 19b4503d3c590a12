// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"time"

	controllermanagerconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/controllermanager/v1alpha1"
	operationsv1alpha1 "github.com/gardener/gardener/pkg/apis/operations/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	controllermanager "github.com/gardener/gardener/pkg/controllermanager/controller/bastion"
	gardenlet "github.com/gardener/gardener/pkg/gardenlet/controller/bastion"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Bastion is a Bastion in a garden, with the controllers of gardenlet and gardener-controller-manager for it.
type Bastion struct {
	// Object is what the last call of Reconcile has read.
	Object *operationsv1alpha1.Bastion

	garden    client.Client
	gardenlet gardenlet.Reconciler
	expiry    controllermanager.Reconciler
}

// NewBastion creates the Bastion that gardenctl creates for a client in a range of addresses, with the defaults of gardener-apiserver.
func (s *Botanist) NewBastion(sshPublicKey, cidr string) *Bastion {
	object := &operationsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Object.Namespace, Name: "cli-abcdefgh", CreationTimestamp: metav1.Now()},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef:     corev1.LocalObjectReference{Name: s.Object.Name},
			ProviderType: ptr.To("kubevirt"),
			SSHPublicKey: sshPublicKey,
			Ingress:      []operationsv1alpha1.BastionIngressPolicy{{IPBlock: networkingv1.IPBlock{CIDR: cidr}}},
		},
		Status: operationsv1alpha1.BastionStatus{ExpirationTimestamp: ptr.To(metav1.NewTime(time.Now().Add(time.Hour)))},
	}
	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).WithObjects(s.Object.DeepCopy(), object).WithStatusSubresource(object).Build()

	return &Bastion{
		Object:    object,
		garden:    garden,
		gardenlet: gardenlet.Reconciler{GardenClient: garden, SeedClient: s.seed.Client, Clock: testclock.NewFakeClock(time.Now())},
		expiry: controllermanager.Reconciler{
			Client: garden,
			Config: controllermanagerconfigv1alpha1.BastionControllerConfiguration{MaxLifetime: &metav1.Duration{Duration: 24 * time.Hour}},
			Clock:  testclock.NewFakeClock(time.Now().Add(2 * time.Hour)),
		},
	}
}

func (b *Bastion) request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.Object)}
}

// Reconcile runs gardenlet's controller once, and reads the Bastion. Once it is gone, the error is NotFound.
func (b *Bastion) Reconcile(ctx context.Context) error {
	if _, err := b.gardenlet.Reconcile(ctx, b.request()); err != nil {
		return err
	}

	return b.garden.Get(ctx, b.request().NamespacedName, b.Object)
}

// Admit replaces the range of the client.
func (b *Bastion) Admit(ctx context.Context, cidr string) error {
	b.Object.Spec.Ingress[0].IPBlock.CIDR = cidr

	return b.garden.Update(ctx, b.Object)
}

// Expire runs the controller of gardener-controller-manager two hours later.
func (b *Bastion) Expire(ctx context.Context) error {
	_, err := b.expiry.Reconcile(ctx, b.request())

	return err
}

// Delete deletes the Bastion as gardenctl does.
func (b *Bastion) Delete(ctx context.Context) error { return b.garden.Delete(ctx, b.Object) }
