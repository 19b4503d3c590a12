// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"strings"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// evacuationPermissions are the permissions of the driver's --evacuation (kubernetes/evacuation/provider-namespace).
func evacuationPermissions() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("kubevirt.io", "virtualmachineinstances", "list", "watch"),
		rule("kubevirt.io", "virtualmachineinstancemigrations", "list", "watch", "create", "delete"),
	}
}

// evacuates reports whether the driver evacuates the machines when their provider node is drained. It does if the account
// has the permissions. If the account has lost them, denied is set, and the driver continues while existing machines wait
// for it. An account whose permissions cannot be read changes nothing.
func (f *flow) evacuates(ctx context.Context) (evacuates, denied bool) {
	missing, err := f.missing(ctx, evacuationPermissions())

	switch {
	case f.note(err) != nil:
		return f.state.Evacuation, f.state.EvacuationDenied
	case len(missing) == 0:
		return true, false
	case f.state.Evacuation && f.hasWaitingMachines(ctx):
		return true, true
	default:
		return false, false
	}
}

// hasWaitingMachines reports whether machines wait for the driver when their node is drained. KubeVirt does not change the
// strategy of a machine. Machines that cannot be read may wait.
func (f *flow) hasWaitingMachines(ctx context.Context) bool {
	waiting, err := providercluster.Collect(ctx, f.provider, &kubevirtv1.VirtualMachineList{}, func(machine *kubevirtv1.VirtualMachine) (string, bool) {
		t := machine.Spec.Template

		return machine.Name, !f.owner.IsForeign(machine) && t != nil && ptr.Deref(t.Spec.EvictionStrategy, "") == kubevirtv1.EvictionStrategyExternal
	}, client.InNamespace(f.namespace), client.MatchingLabels{providerspec.TagCluster: f.owner.TechnicalID})

	return f.note(err) != nil || len(waiting) > 0
}

// Drains returns an error if a drain of a provider node harms a shoot, since its account lacks permissions: the guests are
// shut down with their pods, or, if the account had the permissions before, the drain waits. The health check reports it.
// An account whose permissions cannot be read has no error, except for an ErrBusy.
func Drains(
	ctx context.Context, provider *providercluster.Cluster, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	return newFlow(provider, infra, cluster).checkDrains(ctx, cluster)
}

func (f *flow) checkDrains(ctx context.Context, cluster *extensionscontroller.Cluster) error {
	missing, err := f.missing(ctx, evacuationPermissions())
	if f.note(err) != nil || len(missing) == 0 {
		return f.busy // Findings reports a provider cluster that cannot be read.
	}

	effect := "shuts down machines that cannot live-migrate, with their pods"
	if f.state.Evacuation {
		effect = "waits for machines of the shoot that cannot live-migrate by themselves, and shuts down those that are newer"
	}

	return fmt.Errorf("%s: a drain of a node of the provider cluster %s, since the kubeconfig's user may not %s in namespace %s; %s, and reconcile the Shoot%s",
		credentialsPath(), effect, strings.Join(missing, ", "), f.namespace, applyRoles, f.notMigratable(cluster))
}

// notMigratable names the worker pools whose configuration prevents live migration.
func (f *flow) notMigratable(cluster *extensionscontroller.Cluster) string {
	var text strings.Builder

	for _, pool := range f.pools(cluster) {
		if pool.Type == nil || pool.Image == nil || len(pool.Zones) == 0 {
			continue
		}

		if obstacle := pool.NotMigratable(); obstacle != nil {
			fmt.Fprintf(&text, ". Pool %s cannot live-migrate: because %s", obstacle.Name, obstacle.Reason)
		}
	}

	return text.String()
}
