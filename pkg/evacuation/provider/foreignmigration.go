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
// example after an update of KubeVirt. It evacuates the instance as well, and virt-api rejects other
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
	// readAt is the time of the last read. unfinished is set if a migration had not ended then.
	readAt     time.Time
	unfinished bool
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
	if len(validation.IsValidLabelValue(evacuation.Machine)) > 0 {
		return rejection // KubeVirt cannot label a migration of this instance.
	}

	unfinished, err := e.readForeignMigrations(ctx, evacuation.Machine, migrationName(evacuation.UID, evacuation.Node))
	if err != nil || unfinished {
		return err
	}

	return rejection
}

// refreshForeignMigrations rereads the foreign migrations that had not ended at the last read.
func (e *evacuations) refreshForeignMigrations(ctx context.Context) error {
	var errs []error

	for _, instance := range e.markedInstances() {
		name := migrationName(instance.UID, instance.Status.EvacuationNodeName)
		if known := e.foreign(name); known.unfinished && time.Since(known.readAt) > e.foreignPeriod {
			_, err := e.readForeignMigrations(ctx, instance.Name, name)
			errs = append(errs, err)
		}
	}

	return errors.Join(errs...)
}

// readForeignMigrations determines whether an instance has an unfinished migration. virt-api sets the
// label on each migration and rejects changes of it.
func (e *evacuations) readForeignMigrations(ctx context.Context, instance, migrationName string) (unfinished bool, _ error) {
	ofInstance := providerapi.List{
		Description: "VirtualMachineInstanceMigrations of " + e.clients.Path(instance),
		Labels:      labels.Set{kubevirtv1.MigrationSelectorLabel: instance}.String(),
	}

	found, err := providerapi.Collect(ctx, e.clients, e.clients.Migrations(), ofInstance,
		func(migration *kubevirtv1.VirtualMachineInstanceMigration) (string, bool) {
			return migration.Name, !migration.IsFinal()
		})
	if err != nil {
		return false, err
	}

	known := e.foreign(migrationName)
	known.readAt = time.Now()
	known.unfinished = len(found) > 0

	if known.unfinished && known.since.IsZero() {
		known.since = known.readAt
	}

	e.foreignMigrations.Add(migrationName, known, foreignRetention)

	return known.unfinished, nil
}
