// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// A foreign migration is a migration of a marked instance that KubeVirt or a user has created, for
// example because of the instance's eviction strategy, or after an update of KubeVirt. It evacuates the instance as well, and virt-api rejects other
// migrations of the instance until it has ended (KubeVirt, pkg/virt-api/webhooks/validating-webhook/admitters,
// ensureNoMigrationConflict). The watch does not deliver it, since it lacks the labels of the shoot.

const (
	// foreignPeriod is the interval at which foreign migrations are read again.
	foreignPeriod = 30 * time.Second
	// foreignRetention is how long foreign migrations of an evacuation are remembered. It exceeds all
	// deadlines.
	foreignRetention = 7 * 24 * time.Hour
)

// foreignMigration is the observed state of the foreign migrations of an evacuation.
type foreignMigration struct {
	// since is when the first one was observed. It does not change, so that a series of failing
	// migrations does not postpone the deadline.
	since time.Time
	// readAt is the time of the last read. unfinished is set if a migration had not ended then, and failed
	// if one of virt-controller's migrations for this evacuation had.
	readAt     time.Time
	unfinished bool
	failed     bool
}

// foreign returns the observed foreign migrations of an evacuation.
func (e *evacuations) foreign(migrationName string) foreignMigration {
	found, _ := e.foreignMigrations.Get(migrationName)
	known, _ := found.(foreignMigration)

	return known
}

// acceptForeignMigration returns nil if a foreign migration explains the rejection of the driver's
// own migration. Otherwise it returns the rejection.
func (e *evacuations) acceptForeignMigration(ctx context.Context, evacuation *spi.Evacuation, rejection error) error {
	unfinished, err := e.readForeignMigrations(ctx, evacuation)
	if err != nil || unfinished {
		return err
	}

	return rejection
}

// refreshForeignMigrations reads the migrations that KubeVirt has to create, and rereads other foreign
// migrations that had not ended at the last read.
func (e *evacuations) refreshForeignMigrations(ctx context.Context) error {
	var errs []error

	for _, instance := range e.markedInstances() {
		known := e.foreign(migrationName(instance.UID, instance.Status.EvacuationNodeName))
		awaited := known.unfinished || isMigratedByKubeVirt(instance) && !known.failed

		if awaited && time.Since(known.readAt) > e.foreignPeriod {
			evacuation := e.evacuationOf(instance)
			_, err := e.readForeignMigrations(ctx, &evacuation)
			errs = append(errs, err)
		}
	}

	return errors.Join(errs...)
}

// readForeignMigrations determines whether an instance has an unfinished migration, and whether KubeVirt's has
// failed. virt-api sets the label on each migration and rejects changes of it.
func (e *evacuations) readForeignMigrations(ctx context.Context, evacuation *spi.Evacuation) (unfinished bool, _ error) {
	if len(validation.IsValidLabelValue(evacuation.Machine)) > 0 {
		return false, nil // KubeVirt cannot label a migration of this instance.
	}

	ofInstance := providerapi.List{
		Description: "VirtualMachineInstanceMigrations of " + e.clients.Path(evacuation.Machine),
		Labels:      labels.Set{kubevirtv1.MigrationSelectorLabel: evacuation.Machine}.String(),
	}

	name := migrationName(evacuation.UID, evacuation.Node)
	known := e.foreign(name)

	found, err := providerapi.Collect(ctx, e.clients, e.clients.Migrations(), ofInstance,
		func(migration *kubevirtv1.VirtualMachineInstanceMigration) (string, bool) {
			known.failed = known.failed || hasFailed(migration, evacuation)

			return migration.Name, !migration.IsFinal()
		})
	if err != nil {
		return false, err
	}

	known.readAt = time.Now()
	known.unfinished = len(found) > 0

	if known.unfinished && known.since.IsZero() {
		known.since = known.readAt
	}

	e.foreignMigrations.Add(name, known, foreignRetention)

	return known.unfinished, nil
}

// hasFailed reports whether a migration is one of virt-controller's for an evacuation, and has failed. KubeVirt
// keeps the last migrations of an instance, also those of earlier evacuations.
func hasFailed(migration *kubevirtv1.VirtualMachineInstanceMigration, evacuation *spi.Evacuation) bool {
	return migration.Status.Phase == kubevirtv1.MigrationFailed &&
		migration.Annotations[kubevirtv1.EvacuationMigrationAnnotation] == evacuation.Node &&
		!migration.CreationTimestamp.Time.Before(evacuation.RequestedAt)
}
