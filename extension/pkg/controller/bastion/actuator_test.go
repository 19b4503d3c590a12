// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	reconcilerutils "github.com/gardener/gardener/pkg/controllerutils/reconciler"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	technicalID = "shoot--garden-dev--johndoe"
	namespace   = "my-shoot"
	userData    = "#!/bin/bash -eu\n# the key of a user\n"
	client1     = "192.0.2.0/24"
)

// landscape is a seed with one Bastion, and a provider cluster.
type landscape struct {
	actuator *actuator
	bastion  *extensionsv1alpha1.Bastion
	cluster  *extensionscontroller.Cluster
	provider client.Client
	// writes are the kinds of the objects that were written, in order.
	writes []string
	// refused is the number of writes after which the provider cluster refuses them; negative if it refuses none.
	refused int
}

func newLandscape(t *testing.T, inProvider ...client.Object) *landscape {
	t.Helper()

	l := &landscape{refused: -1}
	l.bastion = &extensionsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "cli-abcdefgh"},
		Spec:       extensionsv1alpha1.BastionSpec{UserData: []byte(userData), Ingress: ingress(client1)},
	}
	l.bastion.Spec.Ingress[0].IPBlock.Except = []string{"192.0.2.128/25"}
	l.cluster = &extensionscontroller.Cluster{
		ObjectMeta:   metav1.ObjectMeta{Name: technicalID},
		CloudProfile: &gardencorev1beta1.CloudProfile{},
		Shoot: &gardencorev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{Name: "johndoe"},
			Status:     gardencorev1beta1.ShootStatus{TechnicalID: technicalID, UID: "5c5a1d9e-9f0e-4a38-9d6b-9fb0a1f4a0b1"},
		},
	}
	infra := &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "johndoe"}}
	infra.Status.ProviderStatus = &runtime.RawExtension{Object: &api.InfrastructureStatus{TypeMeta: api.TypeMeta("InfrastructureStatus"), Namespace: namespace}}

	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(extensionsv1alpha1.AddToScheme(scheme), api.AddToScheme(scheme)))

	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(l.bastion, infra).WithStatusSubresource(l.bastion).Build()
	l.provider = fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(inProvider...).
		WithStatusSubresource(&corev1.Service{}, &kubevirtv1.VirtualMachine{}).WithInterceptorFuncs(l.interceptor()).Build()
	l.actuator = &actuator{seed: seed, newProviderCluster: func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
		return &providercluster.Cluster{Client: l.provider, Namespace: namespace}, nil
	}}

	require.NoError(t, seed.Get(t.Context(), client.ObjectKeyFromObject(l.bastion), l.bastion))

	return l
}

func (l *landscape) interceptor() interceptor.Funcs {
	write := func(object client.Object) error {
		if l.refused == len(l.writes) {
			return errors.New("refused")
		}

		l.writes = append(l.writes, kindOf(object))

		return nil
	}

	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			object.SetUID(types.UID(object.GetName()))

			return errors.Join(write(object), c.Create(ctx, object, options...))
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return errors.Join(write(object), c.Update(ctx, object, options...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return errors.Join(write(object), c.Delete(ctx, object, options...))
		},
	}
}

func kindOf(object client.Object) string {
	kinds, _, _ := providercluster.NewScheme().ObjectKinds(object)

	return kinds[0].Kind
}

func ingress(cidrs ...string) []extensionsv1alpha1.BastionIngressPolicy {
	var all []extensionsv1alpha1.BastionIngressPolicy
	for _, cidr := range cidrs {
		all = append(all, extensionsv1alpha1.BastionIngressPolicy{IPBlock: networkingv1.IPBlock{CIDR: cidr}})
	}

	return all
}

func (l *landscape) reconcile(t *testing.T) error {
	t.Helper()

	return l.actuator.Reconcile(t.Context(), logr.Discard(), l.bastion, l.cluster)
}

func (l *landscape) delete(t *testing.T) error {
	t.Helper()

	return l.actuator.Delete(t.Context(), logr.Discard(), l.bastion, l.cluster)
}

func (l *landscape) key() client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: nameOf(l.bastion, ownership.Of(l.cluster.Shoot))}
}

// get returns an object of the bastion.
func get[T client.Object](t *testing.T, l *landscape, object T) T {
	t.Helper()
	require.NoError(t, l.provider.Get(t.Context(), l.key(), object))

	return object
}

// start makes the virtual machine ready, and gives the load balancer an address.
func (l *landscape) start(t *testing.T, ingress corev1.LoadBalancerIngress) {
	t.Helper()

	machine := get(t, l, &kubevirtv1.VirtualMachine{})
	machine.Status.Ready = true
	require.NoError(t, l.provider.Status().Update(t.Context(), machine))

	service := get(t, l, &corev1.Service{})
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{ingress}
	require.NoError(t, l.provider.Status().Update(t.Context(), service))
}

// left returns the number of objects in the provider cluster.
func (l *landscape) left(t *testing.T) (count int) {
	t.Helper()

	for _, list := range []client.ObjectList{&networkingv1.NetworkPolicyList{}, &corev1.SecretList{}, &kubevirtv1.VirtualMachineList{}, &corev1.ServiceList{}} {
		require.NoError(t, l.provider.List(t.Context(), list))
		count += meta.LenList(list)
	}

	return count
}

// requireWaits requires an error after which the library calls the actuator again soon.
func requireWaits(t *testing.T, err error, says string) {
	t.Helper()

	again, ok := err.(*reconcilerutils.RequeueAfterError) //nolint:errorlint // as the library does
	require.True(t, ok, "%v", err)
	require.Equal(t, waitInterval, again.RequeueAfter)
	require.ErrorContains(t, err, says)
}

func TestActuator_Reconcile(t *testing.T) {
	t.Parallel()

	l := newLandscape(t)

	requireWaits(t, l.reconcile(t), "does not accept SSH connections yet")
	require.Equal(t, []string{"NetworkPolicy", "Secret", "VirtualMachine", "Service"}, l.writes, "the machine never runs without its policy and its user data")

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
	require.NoError(t, change(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30022 })(l))
	l.writes = nil

	l.bastion.Spec.Ingress = ingress("2001:db8::/64")
	require.NoError(t, l.reconcile(t))
	require.Equal(t, []string{"NetworkPolicy", "Service"}, l.writes)

	require.Equal(t, "2001:db8::/64", get(t, l, &networkingv1.NetworkPolicy{}).Spec.Ingress[0].From[0].IPBlock.CIDR)

	service := get(t, l, &corev1.Service{}).Spec
	require.Equal(t, []string{"2001:db8::/64", "255.255.255.255/32"}, service.LoadBalancerSourceRanges)
	require.EqualValues(t, 30022, service.Ports[0].NodePort, "what the provider cluster has chosen")
}

// TestActuator_ReconcileStolen changes objects as the holder of a stolen account can.
func TestActuator_ReconcileStolen(t *testing.T) {
	t.Parallel()

	for name, steal := range map[string]func(*landscape) error{
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
			require.NoError(t, steal(l))
			require.NoError(t, l.reconcile(t))
			requireGolden(t, l)
		})
	}
}

// change returns a function that changes an object of the bastion.
func change[T client.Object](how func(T)) func(*landscape) error {
	return func(l *landscape) error {
		object, _ := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		err := l.provider.Get(context.Background(), l.key(), object)
		how(object)

		return errors.Join(err, l.provider.Update(context.Background(), object))
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
