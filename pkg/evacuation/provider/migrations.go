// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// watchLag is how long a watch may take to deliver a created migration.
const watchLag = 10 * time.Second

// migrationName returns the name of an instance's migration away from a node. It is deterministic, so
// that a restarted or a second process does not create another migration.
func migrationName(instance types.UID, node string) string {
	const digits = 8

	sum := sha256.Sum256([]byte(string(instance) + "/" + node))

	return "evacuation-" + hex.EncodeToString(sum[:digits])
}

// migration returns the driver's migration of that name from the watch's cache, or nil.
func (e *evacuations) migration(name string) *kubevirtv1.VirtualMachineInstanceMigration {
	object, exists, err := e.migrationInformer.GetStore().GetByKey(e.clients.Path(name))
	if err != nil || !exists {
		return nil
	}

	migration, _ := object.(*kubevirtv1.VirtualMachineInstanceMigration)

	return migration
}

// migrationLabels returns the labels of a machine's migration. They omit the machine's name if it
// is not a valid label value; no selector uses it.
func (e *evacuations) migrationLabels(machine string) map[string]string {
	set := map[string]string{
		v1alpha1.TagCluster: e.identity.Cluster, v1alpha1.TagRole: e.identity.Role, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
	}

	if _, labelled := render.MachineSelector(e.identity, machine); labelled {
		set[render.LabelMachine] = machine
	}

	return set
}

// Migrate implements spi.Evacuations. The instance owns the migration, so that the garbage
// collector deletes the migration even if the driver does not.
func (e *evacuations) Migrate(ctx context.Context, evacuation *spi.Evacuation) error {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name:   migrationName(evacuation.UID, evacuation.Node),
			Labels: e.migrationLabels(evacuation.Machine),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: kubevirtv1.GroupVersion.String(),
				Kind:       "VirtualMachineInstance",
				Name:       evacuation.Machine,
				UID:        evacuation.UID,
			}},
		},
		Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: evacuation.Machine},
	}

	switch _, err := e.clients.Migrations().Create(ctx, migration); {
	case err == nil || apierrors.IsAlreadyExists(err):
		e.created.Add(migration.Name, time.Now(), watchLag)

		return nil
	case errors.Is(err, spi.ErrInvalid):
		return e.acceptForeignMigration(ctx, evacuation, err)
	default:
		return err
	}
}

// recentlyCreated returns the state of a migration that the watch has not delivered: pending if it
// was created within watchLag. KubeVirt would reject another creation without a specific reason.
func (e *evacuations) recentlyCreated(name string) (spi.Migration, time.Time) {
	created, recently := e.created.Get(name)
	if !recently {
		return spi.MigrationNone, time.Time{}
	}

	at, _ := created.(time.Time)

	return spi.MigrationPending, at
}

// CancelMigration implements spi.Evacuations.
func (e *evacuations) CancelMigration(ctx context.Context, evacuation *spi.Evacuation) error {
	migration := e.migration(migrationName(evacuation.UID, evacuation.Node))
	if migration == nil || migration.TargetIsHandedOff() {
		return nil
	}

	return e.clients.Migrations().DeleteObject(ctx, migration)
}

// MaintainMigrations implements spi.Evacuations.
func (e *evacuations) MaintainMigrations(ctx context.Context) error {
	return errors.Join(e.deleteObsoleteMigrations(ctx), e.refreshForeignMigrations(ctx))
}

// deleteObsoleteMigrations deletes the driver's migrations that are no longer needed. It keeps a failed
// migration until its evacuation ends: that is the only record of the failure.
func (e *evacuations) deleteObsoleteMigrations(ctx context.Context) error {
	needed := map[string]bool{}

	for _, instance := range e.markedInstances() {
		needed[migrationName(instance.UID, instance.Status.EvacuationNodeName)] = true
	}

	var errs []error

	for _, object := range e.migrationInformer.GetStore().List() {
		migration, ok := object.(*kubevirtv1.VirtualMachineInstanceMigration)
		if ok && isObsolete(migration, needed[migration.Name]) {
			errs = append(errs, e.clients.Migrations().DeleteObject(ctx, migration))
		}
	}

	return errors.Join(errs...)
}

// isObsolete reports whether a migration may be deleted. A migration that is moving a guest is not
// interrupted.
func isObsolete(migration *kubevirtv1.VirtualMachineInstanceMigration, needed bool) bool {
	switch {
	case migration.Status.Phase == kubevirtv1.MigrationSucceeded:
		return true
	case needed:
		return false
	default:
		return migration.IsFinal() || !migration.TargetIsHandedOff()
	}
}
