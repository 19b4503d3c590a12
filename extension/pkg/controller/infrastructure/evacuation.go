// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"strings"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	rbacv1 "k8s.io/api/rbac/v1"
)

// evacuationPermissions are the permissions of the driver's --evacuation (kubernetes/evacuation/provider-namespace).
func evacuationPermissions() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("kubevirt.io", "virtualmachineinstances", "list", "watch"),
		rule("kubevirt.io", "virtualmachineinstancemigrations", "list", "watch", "create", "delete"),
	}
}

// evacuates reports whether the driver evacuates the machines when their provider node is drained: the account has the
// permissions, or had them. Machines that were created then wait for the driver, so that it must not stop; checkDrains
// reports permissions that are missing later. An account whose permissions cannot be read changes nothing.
func (f *flow) evacuates(ctx context.Context) bool {
	if f.state.Evacuation {
		return true
	}

	missing, err := f.missing(ctx, evacuationPermissions())

	return f.note(err) == nil && len(missing) == 0
}

// checkDrains returns an error if a drain of a provider node harms the shoot, since its account lacks permissions: the
// guests are shut down with their pods, or, if the account had the permissions before, the drain waits. An account whose
// permissions cannot be read has no error.
func (f *flow) checkDrains(ctx context.Context, cluster *extensionscontroller.Cluster) error {
	missing, err := f.missing(ctx, evacuationPermissions())
	if f.note(err) != nil || len(missing) == 0 {
		return f.busy // Findings reports a provider cluster that cannot be read.
	}

	effect := "shuts down machines that cannot live-migrate, with their pods" + f.notMigratable(cluster)
	if f.state.Evacuation {
		effect = "waits for the machines of the shoot"
	}

	return fmt.Errorf("%s: a drain of a node of the provider cluster %s, since the kubeconfig's user may not %s in namespace %s; %s, and reconcile the Shoot",
		credentialsPath(), effect, strings.Join(missing, ", "), f.namespace, applyRoles)
}

// notMigratable names the worker pools whose configuration prevents live migration.
func (f *flow) notMigratable(cluster *extensionscontroller.Cluster) string {
	var text strings.Builder

	for _, pool := range f.pools(cluster) {
		if pool.Type == nil || pool.Image == nil || len(pool.Zones) == 0 {
			continue
		}

		if obstacle := pool.NotMigratable(); obstacle != nil {
			fmt.Fprintf(&text, " (pool %s cannot live-migrate, because %s)", obstacle.Name, obstacle.Reason)
		}
	}

	return text.String()
}
