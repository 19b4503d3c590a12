// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	technicalID = "shoot--garden-dev--johndoe"
	shootUID    = "5c5a1d9e-9f0e-4a38-9d6b-9fb0a1f4a0b1"
	namespace   = "my-shoot"
	bridge      = `{"type":"bridge","ipam":{"type":"host-local","subnet":"10.100.0.0/16"}}`
)

// landscape is a seed with one Infrastructure, and a provider cluster.
type landscape struct {
	actuator *actuator
	infra    *extensionsv1alpha1.Infrastructure
	cluster  *extensionscontroller.Cluster
	provider *providercluster.Cluster
	// writes counts the requests to the provider cluster that change something.
	writes int
	// down is the error of all requests to the provider cluster; nil if it can be reached.
	down error
	// hidden are the objects of the provider cluster that the account may not read.
	hidden map[client.ObjectKey]bool
	// hiddenKinds are the kinds that the account may not read.
	hiddenKinds map[string]bool
	// beforeWrite is called before each request that changes something, and can refuse it; nil for none.
	beforeWrite func() error
}

func newLandscape(t *testing.T, config *api.InfrastructureConfig, inProvider ...client.Object) *landscape {
	t.Helper()

	l := &landscape{
		infra: &extensionsv1alpha1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: "johndoe"}},
		cluster: &extensionscontroller.Cluster{
			ObjectMeta:   metav1.ObjectMeta{Name: technicalID},
			CloudProfile: &gardencorev1beta1.CloudProfile{},
			Shoot: &gardencorev1beta1.Shoot{
				Spec:   gardencorev1beta1.ShootSpec{Networking: &gardencorev1beta1.Networking{Nodes: ptr.To("10.100.0.0/16"), Pods: ptr.To("100.96.0.0/11")}},
				Status: gardencorev1beta1.ShootStatus{TechnicalID: technicalID, UID: shootUID},
			},
		},
	}
	l.configure(t, config)

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{extensionsv1alpha1.AddToScheme, machinev1alpha1.AddToScheme, api.AddToScheme} {
		require.NoError(t, add(scheme))
	}

	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(l.infra.DeepCopy()).WithStatusSubresource(l.infra).Build()
	require.NoError(t, seed.Get(t.Context(), client.ObjectKeyFromObject(l.infra), l.infra))

	l.provider = &providercluster.Cluster{Client: l.newProvider(inProvider), Namespace: namespace}
	l.actuator = &actuator{
		seed: seed,
		newProviderCluster: func(context.Context, client.Reader, corev1.SecretReference) (*providercluster.Cluster, error) {
			return l.provider, nil
		},
	}

	return l
}

func (l *landscape) newProvider(objects []client.Object) client.Client {
	write := func() error {
		l.writes++

		if l.beforeWrite != nil {
			return l.beforeWrite()
		}

		return l.down
	}

	return fake.NewClientBuilder().WithScheme(providercluster.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if l.hidden[key] || l.hiddenKinds[object.GetObjectKind().GroupVersionKind().Kind] {
				return named(apierrors.NewForbidden(schema.GroupResource{Resource: "network-attachment-definitions"}, key.Name, errUser))
			}

			return errors.Join(l.down, c.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return errors.Join(l.down, c.List(ctx, list, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if review, isReview := object.(*authorizationv1.SelfSubjectRulesReview); isReview {
				review.Status.ResourceRules = allRules()

				return l.down
			}

			return errors.Join(write(), c.Create(ctx, object, options...))
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return errors.Join(write(), c.Update(ctx, object, options...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return errors.Join(write(), c.Delete(ctx, object, options...))
		},
	}).Build()
}

func (l *landscape) configure(t *testing.T, config *api.InfrastructureConfig) {
	t.Helper()

	config.TypeMeta = api.TypeMeta("InfrastructureConfig")
	raw, err := json.Marshal(config)
	require.NoError(t, err)

	l.infra.Spec.ProviderConfig = &runtime.RawExtension{Raw: raw}

	if l.actuator != nil {
		require.NoError(t, l.actuator.seed.Update(t.Context(), l.infra))
	}
}

func (l *landscape) reconcile(t *testing.T) *api.InfrastructureStatus {
	t.Helper()
	require.NoError(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster))

	written := &extensionsv1alpha1.Infrastructure{}
	require.NoError(t, l.actuator.seed.Get(t.Context(), client.ObjectKeyFromObject(l.infra), written))

	status := &api.InfrastructureStatus{}
	require.Empty(t, api.Decode(written.Status.ProviderStatus, nil, status))

	l.infra = written

	return status
}

// networks returns the names of the NetworkAttachmentDefinitions in the provider cluster.
func (l *landscape) networks(t *testing.T) []string {
	t.Helper()

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(providercluster.NetworkAttachmentDefinition)
	require.NoError(t, l.provider.List(t.Context(), list))

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetNamespace()+"/"+list.Items[i].GetName())
	}

	return names
}

func tenant(name string) api.TenantNetwork { return api.TenantNetwork{Name: name, Config: bridge} }

func config(networks ...api.TenantNetwork) *api.InfrastructureConfig {
	return &api.InfrastructureConfig{Networks: api.NetworksConfig{TenantNetworks: networks}}
}

// TestReconcileNetworks creates, updates and deletes the networks of a shoot beside those of another
// shoot in the same namespace.
func TestReconcileNetworks(t *testing.T) {
	t.Parallel()

	other := network(namespace, "shoot--garden-dev--other-a", bridge, map[string]string{kubevirt.LabelShoot: "shoot--garden-dev--other"})
	first := tenant("a")
	first.Default = true
	l := newLandscape(t, config(first, tenant("b")), other)

	status := l.reconcile(t)
	require.Equal(t, namespace, status.Namespace)
	require.Equal(t, []api.NetworkStatus{
		{Name: namespace + "/" + technicalID + "-a", Default: true, SHA: checksum(bridge)},
		{Name: namespace + "/" + technicalID + "-b", SHA: checksum(bridge)},
	}, status.Networks, "in the order of the configuration, as in 2020")
	require.Equal(t, []string{"10.100.0.0/16"}, l.infra.Status.Networking.Nodes)

	l.writes = 0
	version := l.infra.ResourceVersion
	l.reconcile(t)
	require.Zero(t, l.writes, "nothing has changed")
	require.Equal(t, version, l.infra.ResourceVersion)

	changed := tenant("b")
	changed.Config = `{"type":"macvlan"}`
	l.configure(t, config(changed))
	status = l.reconcile(t)
	require.Equal(t, checksum(changed.Config), status.Networks[0].SHA)
	require.ElementsMatch(t, []string{namespace + "/" + technicalID + "-b", namespace + "/" + other.GetName()}, l.networks(t))

	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Equal(t, []string{namespace + "/" + other.GetName()}, l.networks(t))
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "again")
}

// TestUsedNetworks keeps a network that is no longer configured until no virtual machine uses it.
func TestUsedNetworks(t *testing.T) {
	t.Parallel()

	machine, bastion := machineIn("a"), machineIn("a")
	bastion.Labels = map[string]string{kubevirt.LabelShoot: technicalID, kubevirt.LabelBastion: "b"}

	for _, user := range []*kubevirtv1.VirtualMachine{machine, bastion} {
		l := newLandscape(t, config(tenant("a")), user)
		l.reconcile(t)

		l.configure(t, config())
		require.Empty(t, l.reconcile(t).Networks)
		require.Len(t, l.networks(t), 1, user.Labels)
		require.ErrorContains(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "still use the networks "+technicalID+"-a; delete them")

		require.NoError(t, l.provider.Delete(t.Context(), user))
		l.reconcile(t)
		require.Empty(t, l.networks(t))
	}
}

// TestReconcile_ForeignObjects refuses to change objects that the shoot does not own.
func TestReconcile_ForeignObjects(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")), network(namespace, technicalID+"-a", `{"type":"theirs"}`, nil))
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "is not labelled")
	require.Zero(t, l.writes)
}

func TestSharedNetworks(t *testing.T) {
	t.Parallel()

	shared := &api.InfrastructureConfig{Networks: api.NetworksConfig{SharedNetworks: []api.SharedNetwork{{Name: "net-conf", Namespace: "default"}}}}
	l := newLandscape(t, shared, network("default", "net-conf", bridge, nil))
	require.Equal(t, []api.NetworkStatus{{Name: "default/net-conf", SHA: checksum(bridge)}}, l.reconcile(t).Networks)
	require.Zero(t, l.writes)

	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Equal(t, []string{"default/net-conf"}, l.networks(t), "it belongs to others")

	missing := newLandscape(t, shared)
	require.ErrorContains(t, missing.actuator.Reconcile(t.Context(), logr.Discard(), missing.infra, missing.cluster),
		"spec.provider.infrastructureConfig.networks.sharedNetworks[0]: the shoot cannot use NetworkAttachmentDefinition default/net-conf")
}

// TestReconcileNamespace creates and deletes a namespace, and leaves one that it does not own.
func TestReconcileNamespace(t *testing.T) {
	t.Parallel()

	own := &api.InfrastructureConfig{Namespace: &api.NamespaceConfig{Create: true}}
	l := newLandscape(t, own)
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "the extension's webhook cloudprovider did not change it")

	l.provider.Namespace = technicalID // by the webhook
	require.Equal(t, technicalID, l.reconcile(t).Namespace)

	created := &corev1.Namespace{}
	require.NoError(t, l.provider.Get(t.Context(), client.ObjectKey{Name: technicalID}, created))
	require.Equal(t, technicalID, created.Labels[kubevirt.LabelShoot])
	require.Equal(t, "baseline", created.Labels["pod-security.kubernetes.io/enforce"])

	l.provider.Namespace = "other"
	l.configure(t, config())
	require.ErrorContains(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster), "a shoot cannot move to another namespace")

	l.provider.Namespace = technicalID
	l.configure(t, own)
	require.ErrorContains(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "is being deleted")
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))

	foreign := newLandscape(t, own, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: technicalID}})
	foreign.provider.Namespace = technicalID
	require.ErrorContains(t, foreign.actuator.Reconcile(t.Context(), logr.Discard(), foreign.infra, foreign.cluster), "is not labelled")
	require.ErrorContains(t, foreign.actuator.Delete(t.Context(), logr.Discard(), foreign.infra, foreign.cluster), "is not labelled")
}

func TestReconcileIsolation(t *testing.T) {
	t.Parallel()

	isolated := &api.InfrastructureConfig{Isolation: &api.IsolationConfig{Enabled: true, AllowedCIDRs: []string{"10.1.0.0/16"}}}
	l := newLandscape(t, isolated)
	l.reconcile(t)

	policies := &networkingv1.NetworkPolicyList{}
	require.NoError(t, l.provider.List(t.Context(), policies))
	require.Len(t, policies.Items, 1)
	require.Equal(t, map[string]string{providerspec.TagCluster: technicalID}, policies.Items[0].Spec.PodSelector.MatchLabels, "only pods of this shoot")
	require.Equal(t, "10.1.0.0/16", policies.Items[0].Spec.Egress[0].To[1].IPBlock.CIDR)

	l.writes = 0
	l.reconcile(t)
	require.Zero(t, l.writes)

	isolated.Isolation.AllowedCIDRs[0] = "10.2.0.0/16"
	l.configure(t, isolated)
	l.reconcile(t)
	require.NoError(t, l.provider.List(t.Context(), policies))
	require.Equal(t, "10.2.0.0/16", policies.Items[0].Spec.Egress[0].To[1].IPBlock.CIDR)

	l.configure(t, config())
	l.reconcile(t)
	require.NoError(t, l.provider.List(t.Context(), policies))
	require.Empty(t, policies.Items)
}

// TestNetworkPolicy_Ports reads the ports of the policy: a rule without ports would allow all.
func TestNetworkPolicy_Ports(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, &api.InfrastructureConfig{Isolation: &api.IsolationConfig{Enabled: true}})
	policy := newFlow(&providercluster.Cluster{Namespace: namespace}, l.infra, l.cluster).networkPolicy()

	text := func(rule []networkingv1.NetworkPolicyPort) (all []string) {
		for _, p := range rule {
			all = append(all, fmt.Sprintf("%s %s-%d", *p.Protocol, p.Port, ptr.Deref(p.EndPort, p.Port.IntVal)))
		}

		return all
	}

	require.Equal(t, []string{"TCP 30000-32767", "UDP 30000-32767"}, text(policy.Spec.Ingress[1].Ports))
	require.Equal(t, []string{"TCP 53-53", "UDP 53-53"}, text(policy.Spec.Egress[1].Ports))
}

// TestForceDelete succeeds without the provider cluster.
func TestForceDelete(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")))
	l.reconcile(t)
	l.down = errors.New(providercluster.ErrorPrefix + `Get "https://provider.example.com": dial tcp: lookup provider.example.com: no such host`)

	l.cluster.Shoot.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-2 * time.Hour)}
	err := l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster)
	require.Contains(t, v1beta1helper.ExtractErrorCodes(err), gardencorev1beta1.ErrorInfraDependencies, "gardener-apiserver then accepts the forced deletion")
	require.NoError(t, l.actuator.ForceDelete(t.Context(), logr.Discard(), l.infra, l.cluster))
}

// TestMigrate leaves the provider cluster as it is, and restores the same status.
func TestMigrate(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, config(tenant("a")))
	before := l.reconcile(t)
	l.writes = 0

	require.NoError(t, l.actuator.Migrate(t.Context(), logr.Discard(), l.infra, l.cluster))

	l.infra.Status.ProviderStatus = nil // The other seed has none.
	require.NoError(t, l.actuator.Restore(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Equal(t, before, l.reconcile(t))
	require.Zero(t, l.writes)
}

func rawOf(t *testing.T, object any) []byte {
	t.Helper()

	raw, err := json.Marshal(object)
	require.NoError(t, err)

	return raw
}

// errUser is a part of the message of an API server.
var errUser = errors.New(`User "system:serviceaccount:my-shoot:a" cannot list resource "virtualmachines"`) //nolint:staticcheck // It begins with the name of a kind.
