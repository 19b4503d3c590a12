// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// offer writes the list of shared networks into the CloudProfile, in JSON.
func (l *landscape) offer(networks string) {
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "CloudProfileConfig", "machineImages": [], "sharedNetworks": ` + networks + `}`)}
}

func network(namespace, name, config string, labels map[string]string) *unstructured.Unstructured {
	n := networkAttachmentDefinition()
	n.SetNamespace(namespace)
	n.SetName(name)
	n.SetLabels(labels)
	setConfig(n, config)

	return n
}

// TestSharedNetwork_Unusable returns one error for a network that does not exist, that the account may not read,
// and that belongs to another shoot: users must not learn which networks exist.
func TestSharedNetwork_Unusable(t *testing.T) {
	t.Parallel()

	const victim = "shoot--bank--prod"

	own := func(labels map[string]string) []client.Object {
		return []client.Object{network(victim, "private", bridge, labels)}
	}
	errs := map[string]string{}

	for name, tc := range map[string]struct {
		objects []client.Object
		hidden  bool
	}{
		"missing":          {},
		"forbidden":        {objects: own(nil), hidden: true},
		"of another shoot": {objects: own(map[string]string{kubevirt.LabelShoot: victim})},
		"of another Shoot with this technical ID": {objects: own(labelledFor("another"))},
		"in the namespace of another shoot": {objects: append(own(nil), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: victim, Labels: map[string]string{kubevirt.LabelShoot: victim}},
		})},
	} {
		attack := shares(victim, "private")
		attack.Namespace = &api.NamespaceConfig{Create: true}

		l := newLandscape(t, attack, tc.objects...)
		l.provider.Namespace = technicalID
		l.hidden = map[client.ObjectKey]bool{{Namespace: victim, Name: "private"}: tc.hidden}

		err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
		require.ErrorContains(t, err, "spec.provider.infrastructureConfig.networks.sharedNetworks[0]: ", name)
		require.ErrorContains(t, err, "create it, or correct its name and namespace", name)
		require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, v1beta1helper.ExtractErrorCodes(err), name)

		errs[err.Error()] = name
	}

	require.Lenf(t, errs, 1, "%v", errs)
}

// TestSharedNetwork_Offered permits the networks that the CloudProfile lists; without a list, all that are not
// labelled for a shoot.
func TestSharedNetwork_Offered(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		offered string
		network api.SharedNetwork
		refused bool
	}{
		"no list":                           {network: api.SharedNetwork{Namespace: "storage", Name: "san"}},
		"empty list":                        {offered: `[]`, network: api.SharedNetwork{Namespace: "storage", Name: "san"}, refused: true},
		"network":                           {offered: `[{"namespace": "storage", "name": "san"}]`, network: api.SharedNetwork{Namespace: "storage", Name: "san"}},
		"namespace":                         {offered: `[{"namespace": "storage"}]`, network: api.SharedNetwork{Namespace: "storage", Name: "san"}},
		"another network":                   {offered: `[{"namespace": "storage", "name": "nas"}]`, network: api.SharedNetwork{Namespace: "storage", Name: "san"}, refused: true},
		"another namespace":                 {offered: `[{"namespace": "backup"}]`, network: api.SharedNetwork{Namespace: "storage", Name: "san"}, refused: true},
		"namespace of the machines":         {offered: `[{"name": "lan"}]`, network: api.SharedNetwork{Name: "lan"}},
		"namespace of the machines by name": {offered: `[{"namespace": "` + namespace + `"}]`, network: api.SharedNetwork{Name: "lan"}},
	} {
		l := newLandscape(t, &api.InfrastructureConfig{Networks: api.NetworksConfig{SharedNetworks: []api.SharedNetwork{tc.network}}},
			network("storage", "san", bridge, nil), network(namespace, "lan", bridge, nil))
		if tc.offered != "" {
			l.offer(tc.offered)
		}

		err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
		if !tc.refused {
			require.NoError(t, err, name)

			continue
		}

		require.ErrorContains(t, err, "spec.provider.infrastructureConfig.networks.sharedNetworks[0]: ", name)
		require.ErrorContains(t, err, "the CloudProfile does not offer", name)
	}
}

// TestSharedNetwork_InUse continues with the network that the machines have, if it was deleted or is no longer
// offered: the condition of the Shoot reports it. A network of another shoot is refused nevertheless.
func TestSharedNetwork_InUse(t *testing.T) {
	t.Parallel()

	used := network("storage", "san", bridge, nil)
	l := newLandscape(t, shares("storage", "san"), used)
	before := l.reconcile(t).Networks

	l.offer(`[]`)
	require.Equal(t, before, l.reconcile(t).Networks)

	used.SetLabels(map[string]string{kubevirt.LabelShoot: "shoot--bank--prod"})
	require.NoError(t, l.provider.Update(t.Context(), used))
	require.Error(t, l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster))

	require.NoError(t, l.provider.Delete(t.Context(), used))
	require.Equal(t, before, l.reconcile(t).Networks)
}

// TestRestore_SharedNetworkInUse restores the control plane of a shoot from an older version of the extension, which
// recorded no networks: the machines use the network, even if it is no longer offered. A network without a known
// checksum must exist: with another checksum, all machines would be replaced.
func TestRestore_SharedNetworkInUse(t *testing.T) {
	t.Parallel()

	san := func(labels map[string]string) []client.Object {
		return []client.Object{network("storage", "san", bridge, labels)}
	}

	for name, tc := range map[string]struct {
		objects  []client.Object
		recorded bool
		refused  string
	}{
		"not offered":      {objects: san(nil)},
		"of another shoot": {objects: san(map[string]string{kubevirt.LabelShoot: "shoot--bank--prod"}), refused: "cannot use"},
		"deleted":          {refused: "cannot use"},
		"added later":      {objects: san(nil), recorded: true, refused: "does not offer"},
	} {
		l := newLandscape(t, shares("storage", "san"), tc.objects...)
		l.offer(`[]`)

		if tc.recorded {
			l.infra.Status.State = &runtime.RawExtension{Object: &api.InfrastructureState{TypeMeta: api.TypeMeta("InfrastructureState")}}
			require.NoError(t, l.actuator.seed.Status().Update(t.Context(), l.infra))
		}

		err := l.actuator.Restore(t.Context(), logr.Discard(), l.infra, l.cluster)
		if tc.refused == "" {
			require.NoError(t, err, name)
			require.Equal(t, checksum(bridge), l.reconcile(t).Networks[0].SHA, name)

			continue
		}

		require.ErrorContains(t, err, tc.refused, name)
	}
}

// derived returns the objects of a network of OVN-Kubernetes: a UserDefinedNetwork with labels, and the
// NetworkAttachmentDefinition that OVN-Kubernetes creates for it, without them.
func derived(name string, labels map[string]string) (source, attachment *unstructured.Unstructured) {
	source = newObject(providercluster.UserDefinedNetwork, namespace, name, map[string]any{})
	source.SetLabels(labels)

	attachment = network(namespace, name, `{"type": "ovn-k8s-cni-overlay"}`, map[string]string{"k8s.ovn.org/user-defined-network": ""})
	attachment.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(source, providercluster.UserDefinedNetwork)})

	return source, attachment
}

// TestReadShared_Derived follows the owner of a network that OVN-Kubernetes created, since such a network has no label of its
// shoot. An owner that cannot be read may belong to another shoot.
func TestReadShared_Derived(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		labels  map[string]string
		hidden  bool
		deleted bool
		refused bool
	}{
		"of an admin":      {},
		"own":              {labels: labelledFor(shootUID)},
		"of another shoot": {labels: map[string]string{kubevirt.LabelShoot: "shoot--bank--prod"}, refused: true},
		"of another Shoot with this technical ID": {labels: labelledFor("another"), refused: true},
		"of an unreadable owner":                  {hidden: true, refused: true},
		"of a deleted owner":                      {deleted: true, refused: true},
	} {
		source, attachment := derived("storage", tc.labels)
		objects := []client.Object{attachment}

		if !tc.deleted {
			objects = append(objects, source)
		}

		l := newLandscape(t, shares("", "storage"), objects...)
		l.hiddenKinds = map[string]bool{source.GetKind(): tc.hidden}

		err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
		require.Equal(t, tc.refused, len(newFlow(l.provider, l.infra, l.cluster).checkSharedNetworks(t.Context())) > 0, name)

		if tc.refused {
			require.ErrorContains(t, err, "the shoot cannot use NetworkAttachmentDefinition my-shoot/storage", name)

			continue
		}

		require.NoError(t, err, name)
	}
}
