// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// unsyncedPeriod is the requeue delay for a target whose list of machines is not complete yet.
	unsyncedPeriod = time.Second
	// idlePeriod is the interval at which the controller checks
	// whether any class still points to a target.
	idlePeriod = 10 * time.Minute
)

// targetKey identifies a watch target.
type targetKey struct {
	serverAndNamespace string
	identity           spi.Identity
}

// watchTarget is a set of machines that is watched with one kubeconfig.
type watchTarget struct {
	kubeconfig  []byte
	stop        context.CancelFunc
	evacuations spi.Evacuations
	// records are those of the ongoing evacuations, by the UID of the instance.
	records map[types.UID]*evacuationRecord
}

// rejections returns when the migrations of instances were last rejected.
func (t *watchTarget) rejections() map[types.UID]time.Time {
	rejections := map[types.UID]time.Time{}
	for uid, record := range t.records {
		rejections[uid] = record.rejectedAt
	}

	return rejections
}

// reconcile ensures that a target is watched with its current credentials, or stops the watch, and
// performs the next steps there. It returns the delay until the next pass, unless something changes
// earlier.
func (c *Controller) reconcile(ctx context.Context, key targetKey) (time.Duration, error) {
	target, err := c.ensureWatch(ctx, key)
	if err != nil || target == nil {
		return 0, err
	}

	list, complete := target.evacuations.List()
	if !complete {
		return unsyncedPeriod, nil
	}

	if err := errors.Join(c.evacuate(ctx, target, list), target.evacuations.MaintainMigrations(ctx)); err != nil {
		return 0, err
	}

	if len(list) == 0 {
		return idlePeriod, nil
	}

	return c.options.Period, nil
}

// ensureWatch returns the target after starting its watch if necessary, or nil if no class points to
// the target anymore.
func (c *Controller) ensureWatch(ctx context.Context, key targetKey) (*watchTarget, error) {
	kubeconfig := c.classes.kubeconfig(key)
	current := c.targets[key]

	switch {
	case current != nil && bytes.Equal(current.kubeconfig, kubeconfig):
		return current, nil
	case kubeconfig == nil:
		c.stopWatch(ctx, key)

		return nil, nil //nolint:nilnil // A target without a class is not an error.
	}

	watchCtx, stop := context.WithCancel(ctx)

	evacuations, err := c.options.Evacuator.WatchEvacuations(watchCtx,
		&spi.WatchEvacuationsInput{Kubeconfig: kubeconfig, Identity: key.identity}, func() { c.queue.Add(key) })
	if err != nil {
		stop()

		return nil, fmt.Errorf("watch machines on %s: %w", key.serverAndNamespace, err)
	}

	records := map[types.UID]*evacuationRecord{}

	if current != nil { // The credentials were rotated: ongoing evacuations continue.
		current.stop()

		records = current.records
		if !c.options.Evacuator.IsSameUser(current.kubeconfig, kubeconfig) {
			for _, record := range records {
				record.rejectedSince = time.Time{} // The new credentials may have the permission.
			}
		}
	}

	klog.FromContext(ctx).Info("Watching for machines to evacuate from provider nodes", "target", key.serverAndNamespace,
		"cluster", key.identity.Cluster)

	c.targets[key] = &watchTarget{kubeconfig: kubeconfig, stop: stop, evacuations: evacuations, records: records}

	return c.targets[key], nil
}

func (c *Controller) stopWatch(ctx context.Context, key targetKey) {
	if current := c.targets[key]; current != nil {
		current.stop()
		delete(c.targets, key)
		klog.FromContext(ctx).Info("Stopped watching for machines to evacuate: no MachineClass points to the target anymore",
			"target", key.serverAndNamespace, "cluster", key.identity.Cluster)
	}
}
