// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// providerType is the type of the Shoots that the landscape reconciles.
const providerType = "kubevirt"

// reconcileShoots does what gardenlet does for the Shoots on the Seed. They share the cluster for their Nodes, so
// only the oldest one has a control plane; the others wait for its deletion.
func (l *landscape) reconcileShoots(ctx context.Context) error {
	list := &gardencorev1beta1.ShootList{}
	if err := l.seed.Garden.List(ctx, list); err != nil {
		return fmt.Errorf("list Shoots: %w", err)
	}

	shoots := slices.DeleteFunc(list.Items, func(s gardencorev1beta1.Shoot) bool {
		return s.Spec.SeedName == nil || s.Spec.Provider.Type != providerType
	})
	order(shoots, l.current())

	var failed error

	for i := range slices.Backward(shoots) { // An operation takes minutes.
		if i > 0 {
			failed = errors.Join(failed, l.postpone(ctx, &shoots[i], &shoots[0]))
		} else if due(&shoots[i], time.Now()) {
			failed = errors.Join(failed, l.operate(ctx, &shoots[i]))
		}
	}

	return failed
}

// order sorts Shoots by their creation. The one with the control plane is before all others.
func order(shoots []gardencorev1beta1.Shoot, current *managedShoot) {
	others := func(s gardencorev1beta1.Shoot) int {
		if current != nil && current.key == client.ObjectKeyFromObject(&s) {
			return 0
		}

		return 1
	}

	slices.SortFunc(shoots, func(a, b gardencorev1beta1.Shoot) int {
		return cmp.Or(
			cmp.Compare(others(a), others(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(client.ObjectKeyFromObject(&a).String(), client.ObjectKeyFromObject(&b).String()),
		)
	})
}

// postpone reports in the status of a Shoot that it waits for another one.
func (l *landscape) postpone(ctx context.Context, s, other *gardencorev1beta1.Shoot) error {
	description := fmt.Sprintf("The landscape reconciles one Shoot at a time: waiting for the deletion of %s.", client.ObjectKeyFromObject(other))
	if s.Status.LastOperation != nil && s.Status.LastOperation.Description == description {
		return nil
	}

	l.reporter("gardenlet")("Shoot %s: %s", client.ObjectKeyFromObject(s), description)

	return l.patchStatus(ctx, client.ObjectKeyFromObject(s), func(status *gardencorev1beta1.ShootStatus) { pending(status, description) })
}

// operate runs the operation that a Shoot needs, and reports it in the Shoot's status. Errors of the operation are
// errors of the Shoot.
func (l *landscape) operate(ctx context.Context, s *gardencorev1beta1.Shoot) error {
	key := client.ObjectKeyFromObject(s)
	kind := v1beta1helper.ComputeOperationType(s.ObjectMeta, s.Status.LastOperation)
	report := l.reporter("gardenlet")

	if current := l.current(); current != nil && current.key == key && current.deleted && s.DeletionTimestamp != nil {
		return l.finish(ctx, key, kind)
	}

	if err := l.patchStatus(ctx, key, func(status *gardencorev1beta1.ShootStatus) { begin(status, s, kind) }); err != nil {
		return err
	}

	report("Shoot %s: %s begins", key, kind)

	var last string

	failed := l.perform(ctx, key, kind, func(task string, percent int32) {
		last = task
		report("Shoot %s: %d %% %s", key, percent, task)

		// A status that cannot be written delays only what the user sees.
		_ = l.patchStatus(ctx, key, func(status *gardencorev1beta1.ShootStatus) { progress(status, task, percent) })
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}

	if failed != nil {
		report("Shoot %s: %s failed: %v", key, kind, failed)

		return l.patchStatus(ctx, key, func(status *gardencorev1beta1.ShootStatus) { fail(status, last, failed) })
	}

	report("Shoot %s: %s succeeded", key, kind)

	return l.finish(ctx, key, kind)
}

// finish reports the success of an operation, and releases a deleted Shoot. It can be called again after an error.
func (l *landscape) finish(ctx context.Context, key client.ObjectKey, kind gardencorev1beta1.LastOperationType) error {
	current := l.current()
	current.deleted = kind == gardencorev1beta1.LastOperationTypeDelete

	failed := l.patchStatus(ctx, key, func(status *gardencorev1beta1.ShootStatus) {
		succeed(status)

		status.IsHibernated = current.Object.Status.IsHibernated
	})
	if !current.deleted {
		return failed
	}

	if err := l.seed.Release(ctx, key); err != nil {
		return errors.Join(failed, err)
	}

	l.setCurrent(nil)

	return failed
}

// perform runs an operation.
func (l *landscape) perform(ctx context.Context, key client.ObjectKey, kind gardencorev1beta1.LastOperationType, progress func(string, int32)) error {
	progress("Waiting until all required extensions are ready", 0)

	if err := l.awaitExtension(ctx); err != nil {
		return err
	}

	s, err := l.adopt(ctx, key)
	if err != nil {
		return err
	}

	s.Progress = progress

	if kind != gardencorev1beta1.LastOperationTypeDelete {
		return s.Reconcile(ctx)
	}

	if v1beta1helper.ShootNeedsForceDeletion(s.Object) {
		return s.ForceDelete(ctx)
	}

	progress("Cleaning Kubernetes resources", 0)

	if err := l.seed.DeleteLoadBalancers(ctx); err != nil {
		return err
	}

	return s.Delete(ctx)
}

// awaitExtension waits until the extension is installed and runs. Its error is gardenlet's.
func (l *landscape) awaitExtension(ctx context.Context) error {
	const every, atMost = time.Second, time.Minute

	var last error

	// A request with the context of the timeout would fail before the end, with another error.
	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(context.Context) (bool, error) {
		last = gardenerutils.RequiredExtensionsReady(ctx, l.seed.Garden, &gardencorev1beta1.Seed{ObjectMeta: objectMeta(seedName)}, nil, sets.New(
			gardenerutils.ExtensionsID(extensionsv1alpha1.InfrastructureResource, providerType),
			gardenerutils.ExtensionsID(extensionsv1alpha1.ControlPlaneResource, providerType),
			gardenerutils.ExtensionsID(extensionsv1alpha1.WorkerResource, providerType),
		))

		return last == nil, nil
	})

	return errors.Join(last, err)
}

var errOccupied = errors.New("another Shoot has the control plane")

// adopt returns the Shoot with what gardenlet reads from the garden before an operation.
func (l *landscape) adopt(ctx context.Context, key client.ObjectKey) (*managedShoot, error) {
	switch s := l.current(); {
	case s == nil || s.deleted:
	case s.key != key:
		return nil, fmt.Errorf("%w: %s", errOccupied, s.key)
	default:
		return s, s.Refresh(ctx)
	}

	adopted, err := l.seed.Adopt(ctx, key)
	if err != nil {
		return nil, err
	}

	adopted.HasControlPlane = true
	adopted.Repeats = nil // The status of the Shoot has the error before the operation is repeated.
	s := &managedShoot{Botanist: adopted, key: key}
	l.setCurrent(s)

	return s, nil
}

// patchStatus changes the status of a Shoot in the garden. A deleted Shoot has none.
func (l *landscape) patchStatus(ctx context.Context, key client.ObjectKey, change func(*gardencorev1beta1.ShootStatus)) error {
	s := &gardencorev1beta1.Shoot{}
	if err := l.seed.Garden.Get(ctx, key, s); err != nil {
		return client.IgnoreNotFound(err)
	}

	before := s.DeepCopy()
	change(&s.Status)

	if err := l.seed.Garden.Status().Patch(ctx, s, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of Shoot %s: %w", key, err)
	}

	return nil
}

// checkHealth writes the conditions of the Shoot with a control plane, as gardenlet's care controller does for those
// that the extension reports.
func (l *landscape) checkHealth(ctx context.Context) error {
	s := l.current()
	if s == nil {
		return nil
	}

	var conditions []gardencorev1beta1.Condition

	for _, kind := range []gardencorev1beta1.ConditionType{gardencorev1beta1.ShootControlPlaneHealthy, gardencorev1beta1.ShootEveryNodeReady} {
		condition, err := s.Condition(ctx, kind)
		if err != nil {
			return fmt.Errorf("check the health of Shoot %s: %w", s.Namespace, err)
		}

		if condition.Status == gardencorev1beta1.ConditionTrue {
			condition.Reason = "Healthy"
			condition.Message = "The extension reports no problem."
		}

		if condition.Status != gardencorev1beta1.ConditionUnknown {
			conditions = append(conditions, condition)
		}
	}

	return l.patchConditions(ctx, s, conditions)
}

// patchConditions writes the conditions that changed.
func (l *landscape) patchConditions(ctx context.Context, s *managedShoot, conditions []gardencorev1beta1.Condition) error {
	stored := &gardencorev1beta1.Shoot{}
	if err := l.seed.Garden.Get(ctx, s.key, stored); err != nil {
		return client.IgnoreNotFound(err)
	}

	changed := changedConditions(stored.Status.Conditions, conditions, clock.RealClock{})
	if len(changed) == 0 {
		return nil
	}

	for _, c := range changed {
		l.reporter("gardenlet")("Shoot %s: condition %s is %s: %s", s.key, c.Type, c.Status, c.Message)
	}

	return l.patchStatus(ctx, s.key, func(status *gardencorev1beta1.ShootStatus) {
		status.Conditions = v1beta1helper.MergeConditions(status.Conditions, changed...)
	})
}
