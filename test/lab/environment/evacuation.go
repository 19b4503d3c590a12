// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// evacuationAccount has only evacuation's permissions in the control cluster. The real
// sidecar uses its own account.
const evacuationAccount = "evacuation"

// AllowEvacuation gives the shoot's driver the permissions that evacuation needs on the
// provider cluster. It returns the kubeconfig of an identity that has only evacuation's
// permissions in the control cluster.
func (l *Lab) AllowEvacuation(ctx context.Context, s *Shoot) ([]byte, error) {
	if err := l.allowMigrations(ctx, s); err != nil {
		return nil, fmt.Errorf("allow evacuation of shoot %s in the provider cluster: %w", s.Name, err)
	}
	w, err := newWriter(l.Control, s.Namespace)
	if err != nil {
		return nil, err
	}
	w.account(ctx, evacuationAccount)
	w.do("apply permissions", func() error {
		// The trailing newline restricts the match to the account's name, which is a
		// prefix of other names.
		return l.applyShipped(ctx, l.Control, evacuationControlOverlay,
			"name: "+mcmAccount+"\n", "name: "+evacuationAccount+"\n", shippedNamespace, s.Namespace)
	})
	w.awaitRight(ctx, evacuationAccount, authorizationv1.ResourceAttributes{
		Verb:      "delete",
		Group:     "machine.sapcloud.io",
		Resource:  "machines",
		Namespace: s.Namespace,
	})
	kubeconfig := w.kubeconfig(ctx, evacuationAccount)
	if w.err != nil {
		return nil, fmt.Errorf("allow evacuation of shoot %s in the control cluster: %w", s.Name, w.err)
	}
	return kubeconfig, nil
}

func (l *Lab) allowMigrations(ctx context.Context, s *Shoot) error {
	if err := l.applyShipped(ctx, l.Provider, evacuationProviderOverlay, shippedProviderNamespace, s.ProviderNamespace); err != nil {
		return err
	}
	return awaitRight(ctx, l.Provider, s.ProviderNamespace, driverAccount, authorizationv1.ResourceAttributes{
		Verb:      "create",
		Group:     "kubevirt.io",
		Resource:  "virtualmachineinstancemigrations",
		Namespace: s.ProviderNamespace,
	})
}
