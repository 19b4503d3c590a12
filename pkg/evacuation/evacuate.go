// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// evacuate performs the next steps of a target's evacuations.
func (c *Controller) evacuate(ctx context.Context, target *watchTarget, list []spi.Evacuation) error {
	c.finish(target, list)
	defer c.updateWaiting()

	list = withoutShuttingDown(target, list)
	if len(list) == 0 {
		return nil
	}

	fleet, err := c.readFleet(ctx)
	if err != nil {
		return err
	}

	var errs []error

	list = withRequestTimes(target, c.withoutRejectedMigrations(target, list))

	for _, next := range plan(c.options.Clock.Now(), c.options.Limits, fleet, list, target.rejections()) {
		if err := c.perform(ctx, target, &next); err != nil {
			c.reportFailure(target, &next, err)

			errs = append(errs, fmt.Errorf("evacuate %s: %w", next.evacuation.Machine, err))
		}
	}

	return errors.Join(errs...)
}

// withoutShuttingDown returns the evacuations that need further action. The guests of the other
// machines are already shutting down.
func withoutShuttingDown(target *watchTarget, list []spi.Evacuation) []spi.Evacuation {
	var evacuating []spi.Evacuation

	for i := range list {
		if !list[i].ShuttingDown {
			evacuating = append(evacuating, list[i])
		} else if record := target.records[list[i].UID]; record != nil {
			record.waitingSince = time.Time{}
		}
	}

	return evacuating
}

// withoutRejectedMigrations marks evacuations as not migratable if the provider cluster has rejected
// their migration for too long. No object in the provider cluster records a rejection.
func (c *Controller) withoutRejectedMigrations(target *watchTarget, list []spi.Evacuation) []spi.Evacuation {
	timeout := c.options.Limits.MigrationTimeout
	list = slices.Clone(list)

	for i := range list {
		record := target.records[list[i].UID]
		if record != nil && !record.rejectedSince.IsZero() && c.options.Clock.Since(record.rejectedSince) > timeout {
			list[i].Migratable = false
			list[i].NotMigratableReason = fmt.Sprintf("the provider cluster has rejected the migration for longer than %s", timeout)
		}
	}

	return list
}

// withRequestTimes adds missing request times, so that every evacuation reaches its deadline: if the
// provider cluster does not record the time, the first report counts.
func withRequestTimes(target *watchTarget, list []spi.Evacuation) []spi.Evacuation {
	list = slices.Clone(list)

	for i := range list {
		if record := target.records[list[i].UID]; record != nil && list[i].RequestedAt.IsZero() {
			list[i].RequestedAt = record.requestedAt
		}
	}

	return list
}

// perform performs a step and then reports it.
func (c *Controller) perform(ctx context.Context, target *watchTarget, s *step) error {
	send := c.requestOf(target, s)
	if send == nil {
		c.reportStep(target, s)

		return nil
	}

	if necessary, err := target.evacuations.Confirm(ctx, s.evacuation); err != nil || !necessary {
		return err
	}

	switch err := send(ctx); {
	case s.action == migrate && isRejection(err):
		return rejectedError{err}
	case apierrors.IsConflict(err):
		return nil // The object has changed and will be evaluated again.
	case err != nil:
		return err
	}

	c.reportStep(target, s)

	return nil
}

// rejectedError is the rejection of a migration.
type rejectedError struct{ error }

func (e rejectedError) Unwrap() error { return e.error }

// isRejection reports whether the provider cluster has rejected the request
// itself. Any other error may be transient.
func isRejection(err error) bool {
	return errors.Is(err, spi.ErrInvalid) || errors.Is(err, spi.ErrForbidden) || errors.Is(err, spi.ErrConflict)
}

// requestOf returns the function that sends the request of a step, or nil if the step sends none.
func (c *Controller) requestOf(target *watchTarget, s *step) func(context.Context) error {
	forEvacuation := func(send func(context.Context, *spi.Evacuation) error) func(context.Context) error {
		return func(ctx context.Context) error { return send(ctx, s.evacuation) }
	}

	switch s.action {
	case migrate:
		return forEvacuation(target.evacuations.Migrate)
	case cancelMigration:
		return forEvacuation(target.evacuations.CancelMigration)
	case powerOff:
		return forEvacuation(target.evacuations.PowerOff)
	case replace:
		return func(ctx context.Context) error { return c.deleteMachine(ctx, s) }
	default:
		return nil
	}
}

// deleteMachine deletes the Machine, which machine-controller-manager then replaces, unless the
// Machine has changed since it was evaluated.
func (c *Controller) deleteMachine(ctx context.Context, s *step) error {
	err := c.options.Machines.Machines(c.options.Namespace).Delete(ctx, s.machine.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: ptr.To(s.machine.UID), ResourceVersion: ptr.To(s.machine.ResourceVersion)},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("delete Machine %s: %w", s.machine.Name, err)
	}

	return nil
}
