package providercluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// annotationOrphanSince marks a VirtualMachine for which no Machine was found, with the time (RFC 3339) of the first
	// sighting.
	annotationOrphanSince = "kubevirt.machine.gardener.cloud/orphan-since"
	// orphanMarkExpiry is when a mark counts no more: sightings that far apart are no pair.
	orphanMarkExpiry = 24 * time.Hour
)

// sightOrphan returns nil if the VirtualMachine may be deleted as an orphan: it was seen as one before, long enough ago. The
// first time it only marks it. A sidecar that restarts beside an empty cache takes every machine for an orphan, once.
func (p *Provider) sightOrphan(ctx context.Context, s *session, vm *kubevirtv1.VirtualMachine) error {
	now := p.options.Clock.Now()

	since, err := time.Parse(time.RFC3339, vm.Annotations[annotationOrphanSince])
	if err != nil || now.Sub(since) > orphanMarkExpiry {
		if err := s.markOrphan(ctx, vm, now); err != nil {
			return err
		}

		since = now
	}

	if left := p.options.OrphanGracePeriod - now.Sub(since); left > 0 {
		return fmt.Errorf("%w: no Machine is known for VirtualMachine %s; it is deleted when that is still so in %s",
			spi.ErrConflict, s.path(vm.Name), left.Round(time.Second))
	}

	return nil
}

func (s *session) markOrphan(ctx context.Context, vm *kubevirtv1.VirtualMachine, now time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         vm.UID,
		"annotations": map[string]string{annotationOrphanSince: now.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode orphan mark: %w", err)
	}

	return s.request(ctx, "mark VirtualMachine "+s.path(vm.Name)+" as orphan", func(ctx context.Context) error {
		_, err := s.virtualMachines().Patch(ctx, vm.Name, types.MergePatchType, patch, metav1.PatchOptions{})

		return err
	})
}
