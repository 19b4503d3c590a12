// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// flow is an operation on the objects of one bastion, which have the same name. It needs no permission that the account
// does not have for machines and load balancers.
type flow struct {
	provider *providercluster.Cluster
	bastion  *extensionsv1alpha1.Bastion
	owner    ownership.Owner
	// namespace is the namespace of the shoot's machines.
	namespace string
}

// reconcile creates the bastion, and returns its address. The policy precedes the machine, whose users are root.
func (f *flow) reconcile(ctx context.Context, infra *api.InfrastructureStatus, profile *api.CloudProfileConfig) (*corev1.LoadBalancerIngress, error) {
	image, err := imageOf(profile)
	if err != nil {
		return nil, err
	}

	policy := f.networkPolicy()
	service := f.service(profile)

	policies := func(existing *networkingv1.NetworkPolicy) bool {
		changed := !equality.Semantic.DeepEqual(existing.Spec, policy.Spec)
		existing.Spec = policy.Spec

		return changed
	}
	services := func(existing *corev1.Service) bool {
		service.Spec.LoadBalancerSourceRanges = rangesOf(f.bastion, existing.Spec.IPFamilies)

		return restore(&existing.Spec, &service.Spec)
	}

	if _, err := ensure(ctx, f, policy, &networkingv1.NetworkPolicy{}, policies); err != nil {
		return nil, err
	}

	if err := f.reconcileSecret(ctx); err != nil {
		return nil, err
	}

	machine, err := ensure(ctx, f, f.virtualMachine(infra, image), &kubevirtv1.VirtualMachine{}, never[*kubevirtv1.VirtualMachine])
	if err != nil {
		return nil, err
	}

	if service, err = ensure(ctx, f, service, &corev1.Service{}, services); err != nil {
		return nil, err
	}

	if err := f.checkFamilies(service.Spec.IPFamilies); err != nil {
		return nil, err
	}

	if !machine.Status.Ready {
		return nil, waiting("the virtual machine %s of the bastion does not accept SSH connections yet; its status is %.64q%s", f.key(), machine.Status.PrintableStatus, reasonOf(machine))
	}

	return f.addressOf(service)
}

// checkFamilies returns an error if no client has an address of a load balancer's families, of which it has none before the Service exists.
func (f *flow) checkFamilies(families []corev1.IPFamily) error {
	for _, family := range families {
		if len(clientsOf(f.bastion, family)) > 0 {
			return nil
		}
	}

	if len(families) == 0 {
		return nil
	}

	return v1beta1helper.NewErrorWithCodes(fmt.Errorf("the load balancers of the provider cluster have addresses of %v only, and spec.ingress admits no client with such an address; "+
		"add the client's, for example with gardenctl ssh --cidr", families), gardencorev1beta1.ErrorConfigurationProblem)
}

// reasonOf returns why a virtual machine is not ready, as far as KubeVirt reports it. The text is bounded, since users see it.
func reasonOf(machine *kubevirtv1.VirtualMachine) string {
	for _, wanted := range []kubevirtv1.VirtualMachineCondition{
		{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue},
		{Type: kubevirtv1.VirtualMachineReady, Status: corev1.ConditionFalse},
	} {
		for _, c := range machine.Status.Conditions {
			if c.Type == wanted.Type && c.Status == wanted.Status && c.Message != "" {
				return fmt.Sprintf(": %.300q", c.Message)
			}
		}
	}

	return ""
}

// restore sets the fields of a Service that decide who reaches what through it. It keeps the node ports, and reports whether
// the Service differed.
func restore(existing, desired *corev1.ServiceSpec) (changed bool) {
	before := existing.DeepCopy()
	existing.Type = desired.Type
	existing.Selector = desired.Selector
	existing.ExternalIPs = desired.ExternalIPs
	existing.ExternalTrafficPolicy = desired.ExternalTrafficPolicy
	existing.LoadBalancerSourceRanges = desired.LoadBalancerSourceRanges
	existing.Ports = slices.Clone(desired.Ports)

	for i := range min(len(before.Ports), len(existing.Ports)) {
		existing.Ports[i].NodePort = before.Ports[i].NodePort
	}

	return !equality.Semantic.DeepEqual(before, existing)
}

// reconcileSecret creates the Secret, or replaces one with other user data, which run as root at the next start. Secrets of older
// versions have no host key.
func (f *flow) reconcileSecret(ctx context.Context) error {
	hostKey, err := newHostKey()
	if err != nil {
		return err
	}

	desired, err := f.secret(hostKey)
	if err != nil {
		return err
	}

	existing, err := ensure(ctx, f, desired, &corev1.Secret{}, never[*corev1.Secret])
	if err != nil || f.isValid(existing) {
		return err
	}

	if err := f.deleteSecret(ctx); err != nil {
		return err
	}

	if err := f.provider.Create(ctx, desired); err != nil {
		return fmt.Errorf("replace the Secret %s of the bastion: %w", f.key(), err)
	}

	return nil
}

// isValid reports whether a Secret is as desired, with the host key that it has.
func (f *flow) isValid(existing *corev1.Secret) bool {
	desired, err := f.secret(existing.Data[hostKeyKey])

	return err == nil && ptr.Deref(existing.Immutable, false) && equality.Semantic.DeepEqual(existing.Data, desired.Data)
}

// never is the update of an object that does not change.
func never[T client.Object](T) bool { return false }

// ensure creates an object, or updates it if it differs, and returns it as it exists.
func ensure[T client.Object](ctx context.Context, f *flow, desired, existing T, update func(existing T) (changed bool)) (T, error) {
	description := fmt.Sprintf("%T %s of the bastion", existing, f.key())

	switch err := f.provider.Get(ctx, f.key(), existing); {
	case apierrors.IsNotFound(err):
		if err := f.provider.Create(ctx, desired); err != nil {
			return existing, fmt.Errorf("create %s: %w", description, err)
		}

		return desired, nil
	case err != nil:
		return existing, fmt.Errorf("get %s: %w", description, err)
	}

	if err := f.owner.Check(description, existing); err != nil {
		return existing, err
	}

	if !update(existing) {
		return existing, nil
	}

	if err := f.provider.Update(ctx, existing); err != nil {
		return existing, fmt.Errorf("update %s: %w", description, err)
	}

	return existing, nil
}

// addressOf returns the address of a load balancer. It becomes an argument of the user's ssh: a provider cluster must choose
// neither another argument nor an address of the user's own machine or network. A zone of IPv6 is any text.
func (f *flow) addressOf(service *corev1.Service) (*corev1.LoadBalancerIngress, error) {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if address, err := netip.ParseAddr(ingress.IP); err == nil && address.Zone() == "" && address.IsGlobalUnicast() {
			return &corev1.LoadBalancerIngress{IP: address.String()}, nil
		}

		if len(validation.IsDNS1123Subdomain(ingress.Hostname)) == 0 {
			return &corev1.LoadBalancerIngress{Hostname: ingress.Hostname}, nil
		}
	}

	return nil, waiting("the load balancer of Service %s of the bastion has no valid address yet; check that the provider cluster implements Services of type LoadBalancer", f.key())
}

// delete deletes the bastion, and waits until its machine is gone, which the policy restricts as long as it runs.
func (f *flow) delete(ctx context.Context) error {
	if err := f.removeAccess(ctx); err != nil {
		return err
	}

	return f.removeRest(ctx)
}

// forceDelete requests the deletion of all objects, and waits for none.
func (f *flow) forceDelete(ctx context.Context) error {
	err := f.removeAccess(ctx)
	if waits := (waitingError{}); errors.As(err, &waits) {
		err = nil
	}

	return errors.Join(err, f.removeRest(ctx))
}

// removeAccess deletes the machine and its load balancer together: one whose deletion hangs must not keep the other.
func (f *flow) removeAccess(ctx context.Context) error {
	var failed, left []error

	for _, object := range []client.Object{&kubevirtv1.VirtualMachine{}, &corev1.Service{}} {
		exists, err := f.remove(ctx, object)
		if err != nil {
			failed = append(failed, err)
		} else if exists {
			left = append(left, waiting("%T %s of the bastion is being deleted", object, f.key()))
		}
	}

	if len(failed) > 0 {
		return errors.Join(failed...)
	}

	return errors.Join(left...)
}

// removeRest deletes what only the machine uses.
func (f *flow) removeRest(ctx context.Context) error {
	_, err := f.remove(ctx, &networkingv1.NetworkPolicy{})

	return errors.Join(f.deleteSecret(ctx), err)
}

// deleteSecret deletes the Secret by its labels: as for the Secrets of machines, the account has no permission to delete one by
// its name.
func (f *flow) deleteSecret(ctx context.Context) error {
	err := f.provider.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(f.namespace), client.MatchingLabels(f.labels()))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Secret %s of the bastion: %w", f.key(), err)
	}

	return nil
}

// remove deletes an object of the bastion. It reports whether the object existed.
func (f *flow) remove(ctx context.Context, object client.Object) (existed bool, _ error) {
	err := f.provider.Get(ctx, f.key(), object)
	if err == nil && !f.owner.Owns(object) || apierrors.IsNotFound(err) {
		return false, nil
	}

	if err != nil {
		return false, fmt.Errorf("get %T %s of the bastion: %w", object, f.key(), err)
	}

	if object.GetDeletionTimestamp() != nil {
		return true, nil
	}

	uid := object.GetUID()
	if err := f.provider.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("delete %T %s of the bastion: %w", object, f.key(), err)
	}

	return true, nil
}

func (f *flow) key() client.ObjectKey {
	return client.ObjectKey{Namespace: f.namespace, Name: nameOf(f.bastion, f.owner)}
}

func (f *flow) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.namespace, Name: f.key().Name, Labels: f.labels()}
}
