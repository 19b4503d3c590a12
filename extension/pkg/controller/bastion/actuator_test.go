// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	reconcilerutils "github.com/gardener/gardener/pkg/controllerutils/reconciler"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

func TestActuator_Reconcile(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)

	requireWaits(t, l.reconcile(t), "does not accept SSH connections yet")
	require.Equal(t, []string{"NetworkPolicy", "Secret", "VirtualMachine", "Service"}, l.writes, "the machine never runs without its policy and its user data")

	machine := get(t, l, &kubevirtv1.VirtualMachine{})
	machine.Status.Conditions = []kubevirtv1.VirtualMachineCondition{{Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
	require.NoError(t, l.provider.Status().Update(t.Context(), machine))
	requireWaits(t, l.reconcile(t), "exceeded quota")

	l.start(t, corev1.LoadBalancerIngress{})
	hostKey := get(t, l, &corev1.Secret{}).Data[hostKeyKey]
	requireWaits(t, l.reconcile(t), "has no valid address yet")

	l.start(t, corev1.LoadBalancerIngress{IP: "203.0.113.5", Ports: []corev1.PortStatus{{Port: 22}}})
	require.NoError(t, l.reconcile(t))
	require.Len(t, l.writes, 4, "nothing changed")
	require.Equal(t, &corev1.LoadBalancerIngress{IP: "203.0.113.5"}, l.bastion.Status.Ingress)

	require.Equal(t, string(hostKey), string(get(t, l, &corev1.Secret{}).Data[hostKeyKey]), "a new one would look like another machine")
	requireGolden(t, l)
}

func TestActuator_ReconcileChangedIngress(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)
	require.Error(t, l.reconcile(t))
	l.start(t, corev1.LoadBalancerIngress{IP: "203.0.113.5"})
	require.NoError(t, change(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30022 })(t.Context(), l))
	l.writes = nil

	l.bastion.Spec.Ingress = ingress("2001:db8::/64")
	require.NoError(t, l.reconcile(t))
	require.Equal(t, []string{"NetworkPolicy", "Service"}, l.writes)

	require.Equal(t, "2001:db8::/64", get(t, l, &networkingv1.NetworkPolicy{}).Spec.Ingress[0].From[0].IPBlock.CIDR)

	service := get(t, l, &corev1.Service{}).Spec
	require.Equal(t, []string{"255.255.255.255/32", "2001:db8::/64"}, service.LoadBalancerSourceRanges)
	require.EqualValues(t, 30022, service.Ports[0].NodePort, "what the provider cluster has chosen")

	require.NoError(t, change(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol} })(t.Context(), l))
	l.bastion.Spec.Ingress = ingress("2001:db8::/64") // The patch of the status has read it.
	err := l.reconcile(t)
	require.ErrorContains(t, err, "have addresses of [IPv4] only")
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err))
	require.Equal(t, []string{"255.255.255.255/32"}, get(t, l, &corev1.Service{}).Spec.LoadBalancerSourceRanges)
}

// TestActuator_ReconcileStolen changes objects as the holder of a stolen account can.
func TestActuator_ReconcileStolen(t *testing.T) {
	t.Parallel()

	for name, steal := range map[string]func(context.Context, *landscape) error{
		"Selector":      change(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "stolen"} }),
		"Ports":         change(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(6443) }),
		"More ports":    change(func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 6443}) }),
		"Policy":        change(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster }),
		"Addresses":     change(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.6"} }),
		"Type":          change(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
		"NetworkPolicy": change(func(p *networkingv1.NetworkPolicy) { p.Spec.Egress[0].Ports = nil }),
		"User data":     change(func(s *corev1.Secret) { s.Data[userDataKey] = []byte("#!/bin/bash\n# the key of a thief\n") }),
		"Older version": change(func(s *corev1.Secret) { s.Data = map[string][]byte{userDataKey: []byte(userData)} }),
		"Mutable":       change(func(s *corev1.Secret) { s.Immutable = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := newLandscape(t)
			require.Error(t, l.reconcile(t))
			l.start(t, corev1.LoadBalancerIngress{IP: "203.0.113.5", Ports: []corev1.PortStatus{{Port: 22}}})
			require.NoError(t, steal(t.Context(), l))
			require.NoError(t, l.reconcile(t))
			requireGolden(t, l)
		})
	}
}

func TestActuator_ReconcileWithProfile(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1",
		"kind": "CloudProfileConfig", "loadBalancer": {"class": "internal"}, "bastion": {"containerDisk": {"image": "registry.example.com/debian:13", "imagePullSecret": "mirror"}}}`)}
	require.Error(t, l.reconcile(t))
	require.Equal(t, "internal", *get(t, l, &corev1.Service{}).Spec.LoadBalancerClass)
	require.Equal(t, &kubevirtv1.ContainerDiskSource{Image: "registry.example.com/debian:13", ImagePullSecret: "mirror", ImagePullPolicy: corev1.PullAlways},
		get(t, l, &kubevirtv1.VirtualMachine{}).Spec.Template.Spec.Volumes[0].ContainerDisk)

	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{}`)}
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(l.reconcile(t)))
}

func TestActuator_ReconcileRefused(t *testing.T) {
	t.Parallel()

	hibernate := func(l *landscape) {
		l.cluster.Shoot.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}
	}
	occupy := func(l *landscape) {
		for i := range 10 {
			other := &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: fmt.Sprint(i)}}
			other.Status.ProviderStatus = &runtime.RawExtension{Object: &api.BastionStatus{TypeMeta: api.TypeMeta("BastionStatus"), Namespace: namespace}}
			require.NoError(t, l.actuator.seed.Create(t.Context(), other))
		}
	}

	for name, tc := range map[string]struct {
		prepare func(*landscape)
		says    string
		code    gardencorev1beta1.ErrorCode
	}{
		"Hibernated": {hibernate, "wake it up first", gardencorev1beta1.ErrorConfigurationProblem},
		"Maximum":    {occupy, "the Shoot has 10 Bastions", gardencorev1beta1.ErrorInfraQuotaExceeded},
	} {
		l := newLandscape(t)
		tc.prepare(l)

		err := l.reconcile(t)
		require.ErrorContains(t, err, tc.says, name)
		require.Equal(t, []gardencorev1beta1.ErrorCode{tc.code}, v1beta1helper.ExtractErrorCodes(err), name)
		require.Empty(t, l.writes, name)

		open := newLandscape(t)
		require.Error(t, open.reconcile(t))
		tc.prepare(open)
		requireWaits(t, open.reconcile(t), "does not accept SSH connections yet")
	}
}

// TestActuator_ReconcileErrors requires errors without the user data, and a record before the first write.
func TestActuator_ReconcileErrors(t *testing.T) {
	t.Parallel()

	for writes := range 4 {
		l := newLandscape(t)
		l.refused = writes

		err := l.reconcile(t)
		require.ErrorContains(t, err, "create *v1.")
		require.NotContains(t, err.Error(), "key of a user")
		require.Equal(t, namespace, recorded(l.bastion).Namespace)
	}
}

func TestActuator_ReconcileForeign(t *testing.T) {
	t.Parallel()

	meta := metav1.ObjectMeta{Namespace: newLandscape(t).key().Namespace, Name: newLandscape(t).key().Name}

	for _, foreign := range []client.Object{
		&networkingv1.NetworkPolicy{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta}, &kubevirtv1.VirtualMachine{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
	} {
		l := newLandscape(t, foreign)
		require.ErrorContains(t, l.reconcile(t), "does not belong to the shoot")

		for err := l.delete(t); err != nil; err = l.delete(t) {
			requireWaits(t, err, "is being deleted")
		}

		require.Equal(t, 1, l.left(t), kindOf(foreign))
	}
}

func TestActuator_Delete(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)
	other := *l
	other.bastion = l.bastion.DeepCopy()
	other.bastion.Name = "cli-other"
	require.NoError(t, l.actuator.seed.Create(t.Context(), &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "cli-other"}}))
	require.Error(t, other.reconcile(t))
	require.Error(t, l.reconcile(t))
	require.Equal(t, 8, l.left(t))

	machine := get(t, l, &kubevirtv1.VirtualMachine{})
	machine.Finalizers = []string{"kubevirt.io/virtualMachineControllerFinalize"}
	require.NoError(t, l.provider.Update(t.Context(), machine))

	service := get(t, l, &corev1.Service{})
	service.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	require.NoError(t, l.provider.Update(t.Context(), service))

	requireWaits(t, l.delete(t), "*v1.Service "+l.key().String())
	require.NotNil(t, get(t, l, &kubevirtv1.VirtualMachine{}).DeletionTimestamp, "although the load balancer hangs")
	require.NotNil(t, get(t, l, &corev1.Service{}).DeletionTimestamp)

	service = get(t, l, &corev1.Service{})
	service.Finalizers = nil
	require.NoError(t, l.provider.Update(t.Context(), service))
	requireWaits(t, l.delete(t), "*v1.VirtualMachine "+l.key().String())
	get(t, l, &networkingv1.NetworkPolicy{}) // It restricts the machine until it is gone.

	machine = get(t, l, &kubevirtv1.VirtualMachine{})
	machine.Finalizers = nil
	require.NoError(t, l.provider.Update(t.Context(), machine))
	require.NoError(t, l.delete(t))
	require.Equal(t, 4, l.left(t), "those of the other bastion")
	require.NoError(t, l.delete(t), "a repeated deletion")
}

// TestActuator_DeleteWithoutProvider deletes Bastions while the credentials do not work.
func TestActuator_DeleteWithoutProvider(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)
	works := l.actuator.newProviderCluster
	l.actuator.newProviderCluster = func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
		return nil, providercluster.ErrCredentials
	}

	require.ErrorIs(t, l.reconcile(t), providercluster.ErrCredentials)
	require.NoError(t, l.delete(t), "nothing was written")

	broken := l.actuator.newProviderCluster
	l.actuator.newProviderCluster = works
	require.Error(t, l.reconcile(t))

	l.actuator.newProviderCluster = broken
	require.ErrorIs(t, l.delete(t), providercluster.ErrCredentials)
	require.NoError(t, l.actuator.ForceDelete(t.Context(), logr.Discard(), l.bastion, l.cluster))
}

func TestActuator_ForceDelete(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)
	require.Error(t, l.reconcile(t))
	require.Equal(t, 4, l.left(t))
	require.NoError(t, l.actuator.ForceDelete(t.Context(), logr.Discard(), l.bastion, l.cluster))
	require.Zero(t, l.left(t), "one call is all there is")
}

func TestNameOf(t *testing.T) {
	t.Parallel()

	b := &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Name: "cli-abcdefgh"}}
	owner := ownership.Owner{TechnicalID: technicalID, UID: "a"}
	name := nameOf(b, owner)
	require.Equal(t, technicalID+"-bastion-", name[:len(name)-10])

	for reason, other := range map[string]string{
		"another landscape": nameOf(b, ownership.Owner{TechnicalID: technicalID, UID: "b"}),
		"another shoot":     nameOf(b, ownership.Owner{TechnicalID: technicalID + "2", UID: "a"}),
		"another bastion":   nameOf(&extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Name: "cli-other"}}, owner),
	} {
		require.NotEqual(t, name, other, reason)
	}

	long := nameOf(&extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 253)}}, ownership.Owner{TechnicalID: strings.Repeat("a", 63)})
	require.LessOrEqual(t, len(long), 63, "the name of a Service")
}

func TestInTime(t *testing.T) {
	t.Parallel()

	old := metav1.NewTime(time.Now().Add(-time.Hour))
	now := metav1.Now()

	for name, tc := range map[string]struct {
		meta metav1.ObjectMeta
		want time.Duration
	}{
		"New":         {metav1.ObjectMeta{CreationTimestamp: now}, waitInterval},
		"Never ready": {metav1.ObjectMeta{CreationTimestamp: old}, laterInterval},
		"Deleted now": {metav1.ObjectMeta{CreationTimestamp: old, DeletionTimestamp: &now}, waitInterval},
		"Hangs":       {metav1.ObjectMeta{CreationTimestamp: old, DeletionTimestamp: &old}, laterInterval},
	} {
		again := &reconcilerutils.RequeueAfterError{}
		require.ErrorAs(t, inTime(&extensionsv1alpha1.Bastion{ObjectMeta: tc.meta}, waiting("for it")), &again, name)
		require.Equal(t, tc.want, again.RequeueAfter, name)
	}
}
