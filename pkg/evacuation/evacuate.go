package evacuation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// evacuate performs the next steps at a site.
func (c *Controller) evacuate(ctx context.Context, s *site, list []spi.Evacuation) error {
	c.conclude(s, list)
	defer c.countWaiting()

	if len(list) == 0 {
		return nil
	}

	now, err := c.fleetNow(ctx)
	if err != nil {
		return err
	}

	var errs []error

	for _, next := range plan(c.options.Clock.Now(), c.options.Limits, now, c.realistic(s, list)) {
		if err := c.take(ctx, s, &next); err != nil {
			c.reportFailure(s, &next, err)

			errs = append(errs, fmt.Errorf("evacuate %s: %w", next.evacuation.Machine, err))
		}
	}

	return errors.Join(errs...)
}

// realistic returns the evacuations, and marks those as not migratable whose migrations the
// provider cluster has rejected for too long. The objects there do not show the rejections.
func (c *Controller) realistic(s *site, list []spi.Evacuation) []spi.Evacuation {
	list = slices.Clone(list)

	for i := range list {
		known := s.stories[list[i].UID]
		if known != nil && !known.refused.IsZero() && c.options.Clock.Since(known.refused) > c.options.Limits.MigrationTimeout {
			list[i].Migratable, list[i].Obstacle = false, "KubeVirt has refused to for "+c.options.Limits.MigrationTimeout.String()
		}
	}

	return list
}

// take performs a step, and reports it afterwards.
func (c *Controller) take(ctx context.Context, s *site, next *step) error {
	send := c.request(s, next)
	if send == nil {
		c.report(s, next)

		return nil
	}

	if stands, err := s.evacuations.Confirm(ctx, next.evacuation); err != nil || !stands {
		return err
	}

	switch err := send(ctx); {
	case next.do == migrate && refuses(err):
		return refusedError{err}
	case apierrors.IsConflict(err):
		return nil // The object has changed and will be evaluated again.
	case err != nil:
		return err
	}

	c.report(s, next)

	return nil
}

// refusedError is the rejection of a migration.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// refuses reports whether the provider cluster has rejected the request
// itself. Any other error may be transient.
func refuses(err error) bool {
	return errors.Is(err, spi.ErrInvalid) || errors.Is(err, spi.ErrForbidden) || errors.Is(err, spi.ErrConflict)
}

// request returns the function that sends a step's request to a cluster, or nil.
func (c *Controller) request(s *site, next *step) func(context.Context) error {
	about := func(send func(context.Context, *spi.Evacuation) error) func(context.Context) error {
		return func(ctx context.Context) error { return send(ctx, next.evacuation) }
	}

	switch next.do {
	case migrate:
		return about(s.evacuations.Migrate)
	case endMigration:
		return about(s.evacuations.EndMigration)
	case powerOff:
		return about(s.evacuations.PowerOff)
	case replace:
		return func(ctx context.Context) error { return c.deleteMachine(ctx, next) }
	default:
		return nil
	}
}

// deleteMachine deletes the Machine, which machine-controller-manager then replaces, unless the
// Machine has changed since it was evaluated.
func (c *Controller) deleteMachine(ctx context.Context, next *step) error {
	err := c.options.Machines.Machines(c.options.Namespace).Delete(ctx, next.machine.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: ptr.To(next.machine.UID), ResourceVersion: ptr.To(next.machine.ResourceVersion)},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("delete Machine %s: %w", next.machine.Name, err)
	}

	return nil
}
