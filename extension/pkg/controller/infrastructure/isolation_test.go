// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
)

// TestReconcileIsolation_Bastions admits the bastions of the shoot, and keeps their policies: an Infrastructure without
// isolation has no policy of its own.
func TestReconcileIsolation_Bastions(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, &api.InfrastructureConfig{Isolation: &api.IsolationConfig{Enabled: true}})
	owner := ownership.Of(l.cluster.Shoot)
	bastion := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bastion", Labels: owner.Labels()}}
	bastion.Labels[kubevirt.LabelBastion] = "bastion"
	require.NoError(t, l.provider.Create(t.Context(), bastion))

	l.reconcile(t)

	isolation := &networkingv1.NetworkPolicy{}
	require.NoError(t, l.provider.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: technicalID + "-isolation"}, isolation))

	rule := isolation.Spec.Ingress[2]
	require.EqualValues(t, 22, rule.Ports[0].Port.IntVal)
	require.Len(t, rule.Ports, 1)
	require.Equal(t, owner.Labels(), rule.From[0].PodSelector.MatchLabels)
	require.Equal(t, []metav1.LabelSelectorRequirement{{Key: kubevirt.LabelBastion, Operator: metav1.LabelSelectorOpExists}}, rule.From[0].PodSelector.MatchExpressions)

	l.configure(t, config())
	l.reconcile(t)
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))

	left := &networkingv1.NetworkPolicyList{}
	require.NoError(t, l.provider.List(t.Context(), left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "bastion", left.Items[0].Name)
}
