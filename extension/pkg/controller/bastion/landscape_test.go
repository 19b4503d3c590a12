// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
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
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

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
		ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "cli-abcdefgh", CreationTimestamp: metav1.Now()},
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
	machine.Status = kubevirtv1.VirtualMachineStatus{Ready: true}
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

// change returns a function that changes an object of the bastion.
func change[T client.Object](how func(T)) func(context.Context, *landscape) error {
	return func(ctx context.Context, l *landscape) error {
		object, _ := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
		err := l.provider.Get(ctx, l.key(), object)
		how(object)

		return errors.Join(err, l.provider.Update(ctx, object))
	}
}

var update = flag.Bool("update", false, "write the golden file")

// requireGolden compares the objects of a bastion with testdata/bastion.yaml: a field that is missing there admits or allows more
// than it should.
func requireGolden(t *testing.T, l *landscape) {
	t.Helper()

	var actual []byte

	secret := get(t, l, &corev1.Secret{})
	userData, err := userDataOf([]byte(userData), secret.Data[hostKeyKey])
	require.NoError(t, err)
	require.Equal(t, string(userData), string(secret.Data[userDataKey]))

	secret.Data = nil // differs each time

	for _, object := range []client.Object{
		get(t, l, &networkingv1.NetworkPolicy{}), secret, get(t, l, &kubevirtv1.VirtualMachine{}), get(t, l, &corev1.Service{}),
	} {
		object.SetUID("")
		object.SetResourceVersion("")

		document, err := yaml.Marshal(object)
		require.NoError(t, err)

		actual = append(actual, "---\n"...)
		actual = append(actual, document...)
	}

	file := filepath.Join("testdata", "bastion.yaml")
	if *update {
		require.NoError(t, os.WriteFile(file, actual, 0o600))
	}

	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(golden), string(actual))
}
