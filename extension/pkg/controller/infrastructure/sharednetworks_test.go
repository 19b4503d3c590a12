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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// offer writes the list of shared networks into the CloudProfile, in JSON.
func (l *landscape) offer(networks string) {
	l.cluster.CloudProfile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion": "` + api.SchemeGroupVersion.String() + `", "kind": "CloudProfileConfig", "machineImages": [], "sharedNetworks": ` + networks + `}`)}
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
