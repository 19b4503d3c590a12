package spi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Evacuator finds the machines that must leave their provider nodes, and evacuates them. When the
// eviction of a machine's pod is requested (kubectl drain does that), KubeVirt marks the machine,
// refuses the eviction, and leaves the rest to a watching controller.
type Evacuator interface {
	// Place names the target of a kubeconfig: two kubeconfigs of the same place see the same
	// machines. The error wraps ErrInvalid.
	Place(kubeconfig []byte) (string, error)
	// WatchEvacuations starts watching the machines of one identity, until ctx ends.
	// It calls changed after every change; changed must not block. The error wraps
	// one of the package's sentinels.
	WatchEvacuations(ctx context.Context, in *WatchEvacuationsInput, changed func()) (Evacuations, error)
}

// WatchEvacuationsInput selects the machines to watch.
type WatchEvacuationsInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Identity selects the machines. Both parts are required.
	Identity Identity
}

// Evacuations are the evacuations of the machines of one identity, at one place. The list may be
// slightly out of date, so every irreversible action begins with Confirm. The methods that send
// requests set their own time limits and converge when they are called again; their errors wrap one
// of the package's sentinels and contain no secret bytes.
type Evacuations interface {
	// List returns the machines that must leave their nodes, except those that are being shut down.
	// It returns false until it knows all of them.
	List() ([]Evacuation, bool)
	// Confirm asks the provider cluster whether an evacuation is still necessary.
	Confirm(ctx context.Context, e *Evacuation) (bool, error)
	// Migrate starts to migrate the machine to another node, unless that was started before.
	Migrate(ctx context.Context, e *Evacuation) error
	// EndMigration cancels a migration of this driver that has not begun to move the guest.
	EndMigration(ctx context.Context, e *Evacuation) error
	// PowerOff removes the machine's virtual machine, even if workload still runs in it.
	PowerOff(ctx context.Context, e *Evacuation) error
	// Tidy removes the driver's migrations that no evacuation needs any more.
	Tidy(ctx context.Context) error
}

// Evacuation is a machine that must leave its provider node.
type Evacuation struct {
	// Machine is the machine's name.
	Machine string
	// UID is the UID of the running instance. A restarted machine is another evacuation.
	UID types.UID
	// Node is the provider node that the machine must leave.
	Node string
	// Since is when the provider cluster noticed; zero if it has not reported that yet.
	Since time.Time
	// Migratable is set if the guest can be live-migrated.
	Migratable bool
	// Obstacle is why it cannot; it may be empty.
	Obstacle string
	// Migration is the state of its live migration.
	Migration Migration
	// MigrationSince is when that migration was created or, if it is running, when it began to move
	// the guest; zero without one.
	MigrationSince time.Time
	// MigrationProgress is when the provider cluster last advanced or ended a live migration away
	// from the node, this one or another one; zero if it has not. Migrations wait in a queue of the
	// provider cluster, which runs only a few at a time.
	MigrationProgress time.Time
}

// Migration is the state of a live migration.
type Migration string

const (
	// MigrationNone means that no migration was requested.
	MigrationNone Migration = ""
	// MigrationPending means that the migration is queued, or that its target is being prepared.
	// The guest is untouched.
	MigrationPending Migration = "Pending"
	// MigrationRunning means that the guest is being moved.
	MigrationRunning Migration = "Running"
	// MigrationFailed means that the migration has ended and the guest has not moved.
	MigrationFailed Migration = "Failed"
)
