package environment

import (
	"context"
	"fmt"
)

// evacuationAccount may do in the control cluster what evacuation needs, and nothing else. The sidecar does it as itself.
const evacuationAccount = "evacuation"

// AllowEvacuation gives the shoot's driver the rights that evacuation needs on the provider cluster. It returns the kubeconfig of an
// identity that has, in the control cluster, no other rights than evacuation's.
func (l *Lab) AllowEvacuation(ctx context.Context, s *Shoot) ([]byte, error) {
	if err := l.allowEvacuation(ctx, s); err != nil {
		return nil, fmt.Errorf("allow evacuation of shoot %s in the provider cluster: %w", s.Name, err)
	}
	w, err := newWriter(l.Control, s.Namespace)
	if err != nil {
		return nil, err
	}
	rules, err := shippedRules(evacuationMachinesManifest)
	if err != nil {
		return nil, err
	}
	w.account(ctx, evacuationAccount)
	w.role(ctx, s.Namespace, evacuationAccount, rules, evacuationAccount)
	kubeconfig := w.kubeconfig(ctx, evacuationAccount)
	if w.err != nil {
		return nil, fmt.Errorf("allow evacuation of shoot %s in the control cluster: %w", s.Name, w.err)
	}
	return kubeconfig, nil
}

func (l *Lab) allowEvacuation(ctx context.Context, s *Shoot) error {
	w, err := newWriter(l.Provider, s.ProviderNamespace)
	if err != nil {
		return err
	}
	rules, err := shippedRules(evacuationManifest)
	if err != nil {
		return err
	}
	w.role(ctx, s.ProviderNamespace, driverAccount+"-evacuation", rules, driverAccount)
	return w.err
}
