// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Evacuator finds the machines that must leave their provider nodes, and evacuates them. When the
// eviction of a machine's pod is requested, as by kubectl drain, KubeVirt marks the machine for
// evacuation, refuses the eviction, and leaves the rest to an external controller.
type Evacuator interface {
	// ServerAndNamespace identifies the server and the namespace that a kubeconfig points to. Two
	// kubeconfigs with the same result give access to the same machines. The error wraps ErrInvalid.
	ServerAndNamespace(kubeconfig []byte) (string, error)
	// IsSameUser reports whether two kubeconfigs are known to have the same user, and so the same
	// permissions: a token was renewed.
	IsSameUser(a, b []byte) bool
	// WatchEvacuations watches the machines of one identity until ctx is done. It calls changed
	// after every change; changed must not block. The error wraps one of the package's sentinels.
	WatchEvacuations(ctx context.Context, in *WatchEvacuationsInput, changed func()) (Evacuations, error)
}

// WatchEvacuationsInput selects the machines to watch.
type WatchEvacuationsInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Identity selects the machines. Both parts are required.
	Identity Identity
}

// Evacuations are the evacuations of the machines of one identity, on one server and in one
// namespace. The list may be slightly out of date, so every irreversible action begins with
// Confirm. The methods that send requests set their own time limits and converge when they are
// called again; their errors wrap one of the package's sentinels and contain no secret bytes.
type Evacuations interface {
	// List returns the machines that must leave their nodes, until their guests have left them.
	// It returns false until the list is complete.
	List() ([]Evacuation, bool)
	// Confirm reads from the provider cluster whether an evacuation is still necessary.
	Confirm(ctx context.Context, e *Evacuation) (bool, error)
	// Migrate requests the live migration of the machine to another node, unless it has been
	// requested before, by this driver or by another client.
	Migrate(ctx context.Context, e *Evacuation) error
	// CancelMigration cancels a migration of this driver that has not begun to move the guest.
	CancelMigration(ctx context.Context, e *Evacuation) error
	// PowerOff deletes the machine's virtual machine, even if workload still runs on it.
	PowerOff(ctx context.Context, e *Evacuation) error
	// MaintainMigrations deletes the driver's migrations that have succeeded, and those that evacuations
	// no longer need. It reads migrations again that others have requested, which watches do not
	// deliver. It sends no request if there is none of these.
	MaintainMigrations(ctx context.Context) error
}

// Evacuation is a machine that must leave its provider node.
type Evacuation struct {
	// Machine is the machine's name.
	Machine string
	// UID is the UID of the running instance. A restarted machine is another evacuation.
	UID types.UID
	// Node is the provider node that the machine must leave.
	Node string
	// RequestedAt is when the eviction was requested; zero if the provider cluster has not reported
	// it yet. KubeVirt before 1.7 never does.
	RequestedAt time.Time
	// ShuttingDown is set if the guest is already being shut down: it leaves the node without further
	// action, but has not left it yet.
	ShuttingDown bool
	// Migratable is set if the guest can be live-migrated.
	Migratable bool
	// NotMigratableReason is why the guest cannot be live-migrated; it may be empty.
	NotMigratableReason string
	// Migration is the state of its live migration.
	Migration Migration
	// MigrationSince is when that migration was created or, if it is running, when it began to move
	// the guest; the first time that a foreign migration was found; zero without a migration.
	MigrationSince time.Time
	// MigrationProgressAt is when the provider cluster last advanced or ended a live migration away
	// from the node, of this machine or of another one; zero if it has not. It is in the future while
	// a migration may still be copying memory. Migrations wait in a queue of the provider cluster,
	// which runs only a few at a time.
	MigrationProgressAt time.Time
	// MigrationQueued is set if the pending migration only waits for migrations that the driver
	// cannot see: the provider cluster has accepted it, names no obstacle, and runs no other
	// migration of this identity away from the node.
	MigrationQueued bool
}

// Migration is the state of a live migration.
type Migration string

const (
	// MigrationNone means that no migration was requested.
	MigrationNone Migration = ""
	// MigrationPending means that the migration is queued, or that its target is being prepared.
	// The guest is untouched.
	MigrationPending Migration = "Pending"
	// MigrationForeign means that another client has requested the migration, and that it has not
	// ended. Only that client can cancel it, and the reason why it waits is unknown.
	MigrationForeign Migration = "requested by another client"
	// MigrationRunning means that the guest is being moved.
	MigrationRunning Migration = "Running"
	// MigrationFailed means that the migration has ended and the guest has not moved.
	MigrationFailed Migration = "Failed"
)
