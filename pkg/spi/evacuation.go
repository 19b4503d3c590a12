package spi

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Evacuator knows which machines are to leave their provider nodes, and makes them leave. KubeVirt marks them when somebody asks to
// evict their pods (kubectl drain does), refuses the eviction, and leaves the rest to whoever watches.
type Evacuator interface {
	// Place names where a kubeconfig leads to: two kubeconfigs of the same place see the same machines. The error wraps ErrInvalid.
	Place(kubeconfig []byte) (string, error)
	// WatchEvacuations begins to follow the machines of one identity, until ctx is over. It calls changed after every change, and
	// must not be kept waiting by it. The error wraps one of the package's sentinels.
	WatchEvacuations(ctx context.Context, in *WatchEvacuationsInput, changed func()) (Evacuations, error)
}

// WatchEvacuationsInput says whose machines to follow.
type WatchEvacuationsInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Identity selects the machines. Both parts are required.
	Identity Identity
}

// Evacuations are those of the machines of one identity, at one place. What is listed may be a moment old, so whatever cannot be
// undone begins with Confirm. The methods that send requests set their own time limits and converge when they are called again;
// their errors wrap one of the package's sentinels and carry no secret bytes.
type Evacuations interface {
	// List returns the machines that are to leave their nodes, without those that are being shut down. It returns false until it
	// knows all of them.
	List() ([]Evacuation, bool)
	// Confirm asks the provider cluster whether an evacuation still stands.
	Confirm(ctx context.Context, e *Evacuation) (bool, error)
	// Migrate begins to move the machine to another node, unless that was begun before.
	Migrate(ctx context.Context, e *Evacuation) error
	// EndMigration gives up a migration of ours that has not begun to move the guest.
	EndMigration(ctx context.Context, e *Evacuation) error
	// PowerOff removes the machine's virtual machine, whatever still runs in it.
	PowerOff(ctx context.Context, e *Evacuation) error
	// Tidy removes those of our migrations that no evacuation needs any more.
	Tidy(ctx context.Context) error
}

// Evacuation is a machine that is to leave its provider node.
type Evacuation struct {
	// Machine is the machine's name.
	Machine string
	// UID is that of the running instance. A machine that was started again is another evacuation.
	UID types.UID
	// Node is the provider node that is to be left.
	Node string
	// Since is when the provider cluster noticed; zero if it has not said so yet.
	Since time.Time
	// Migratable says that the guest can be moved while it runs.
	Migratable bool
	// Obstacle says why it cannot; it may be empty.
	Obstacle string
	// Migration says how far its migration is.
	Migration Migration
	// MigrationSince is when that migration was created or, if it is running, when it began to move the guest; zero without one.
	MigrationSince time.Time
	// MigrationProgress is when the provider cluster last advanced or ended a live migration away from the node, this one or
	// another one; zero if it has not. Migrations wait in a queue of the provider cluster, which runs only a few at a time.
	MigrationProgress time.Time
}

// Migration says how far a live migration is.
type Migration string

const (
	// MigrationNone is one that nobody has asked for.
	MigrationNone Migration = ""
	// MigrationPending is one that waits for its turn, or whose target is being prepared. The guest is untouched.
	MigrationPending Migration = "Pending"
	// MigrationRunning is one that moves the guest.
	MigrationRunning Migration = "Running"
	// MigrationFailed is one that has ended where it began.
	MigrationFailed Migration = "Failed"
)
