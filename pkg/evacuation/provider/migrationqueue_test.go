// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// drainStart is when the drain of these tests began.
var drainStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func minutes(n int) time.Time { return drainStart.Add(time.Duration(n) * time.Minute) }

// newEvacuations returns evacuations whose caches contain these objects.
func newEvacuations(t *testing.T, instances []*kubevirtv1.VirtualMachineInstance, migrations ...*kubevirtv1.VirtualMachineInstanceMigration) *evacuations {
	t.Helper()

	e := &evacuations{
		clients:           &providerapi.Clients{Namespace: "machines"},
		created:           utilcache.NewLRUExpireCache(10),
		foreignMigrations: utilcache.NewLRUExpireCache(10),
		instanceInformer:  cache.NewSharedIndexInformer(&cache.ListWatch{}, &kubevirtv1.VirtualMachineInstance{}, 0, cache.Indexers{}),
		migrationInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &kubevirtv1.VirtualMachineInstanceMigration{}, 0, cache.Indexers{}),
	}

	for _, instance := range instances {
		trimmed, err := trim(instance)
		require.NoError(t, err)
		require.NoError(t, e.instanceInformer.GetStore().Add(trimmed))
	}

	for _, migration := range migrations {
		require.NoError(t, e.migrationInformer.GetStore().Add(migration))
	}

	return e
}

func markedInstanceOn(name, node string) *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "machines", UID: types.UID(name)},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: node, EvacuationNodeName: node},
	}
}

// migratedInstance returns the instance b, which was migrated away from a node within three
// minutes. Its migration was deleted.
func migratedInstance(from string) *kubevirtv1.VirtualMachineInstance {
	instance := markedInstanceOn("b", "elsewhere")
	instance.Status.EvacuationNodeName = ""
	instance.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
		SourceNode:     from,
		StartTimestamp: ptr.To(metav1.NewTime(minutes(30))),
		EndTimestamp:   ptr.To(metav1.NewTime(minutes(33))),
	}

	return instance
}

// copyingInstance returns the instance b, whose migration away from a node has been copying memory
// since minute 30.
func copyingInstance(from, memory string) *kubevirtv1.VirtualMachineInstance {
	instance := migratedInstance(from)
	instance.Status.MigrationState.EndTimestamp = nil
	instance.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: ptr.To(resource.MustParse(memory))}

	return instance
}

// transition is a phase of a migration, and the minute in which it began.
type transition struct {
	phase kubevirtv1.VirtualMachineInstanceMigrationPhase
	at    int
}

// migrationFor returns the driver's migration of an instance away from the node "host", created at
// the start of the drain.
func migrationFor(instance string, phases ...transition) *kubevirtv1.VirtualMachineInstanceMigration {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{
		Name:              migrationName(types.UID(instance), "host"),
		Namespace:         "machines",
		CreationTimestamp: metav1.NewTime(drainStart),
	}}

	for _, next := range phases {
		migration.Status.Phase = next.phase
		migration.Status.PhaseTransitionTimestamps = append(migration.Status.PhaseTransitionTimestamps,
			kubevirtv1.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
				Phase:                    next.phase,
				PhaseTransitionTimestamp: metav1.NewTime(minutes(next.at)),
			})
	}

	return migration
}

// TestMigrationProgress shows which of KubeVirt's timestamps count as progress of a node's queue.
// The phases are those that virt-controller records (TestLiveMigration in
// test/integration/evacuation).
func TestMigrationProgress(t *testing.T) {
	t.Parallel()

	type instances = []*kubevirtv1.VirtualMachineInstance

	tests := map[string]struct {
		reason string
		in     *evacuations
		want   map[string]time.Time
	}{
		"NotAccepted": {
			reason: "virt-controller has not accepted it",
			want:   map[string]time.Time{"host": {}},
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, migrationFor("a")),
		},
		"Queued": {
			reason: "an accepted migration may still be queued",
			want:   map[string]time.Time{"host": {}},
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, migrationFor("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"TargetCreated": {
			reason: "it has left the queue",
			want:   map[string]time.Time{"host": minutes(40)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host")}, migrationFor("a",
				transition{kubevirtv1.MigrationPending, 1}, transition{kubevirtv1.MigrationScheduling, 40})),
		},
		"AnotherFailed": {
			reason: "a failed migration makes room for the next one",
			want:   map[string]time.Time{"host": minutes(50)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), markedInstanceOn("b", "host")},
				migrationFor("a", transition{kubevirtv1.MigrationPending, 1}),
				migrationFor("b", transition{kubevirtv1.MigrationScheduling, 45}, transition{kubevirtv1.MigrationFailed, 50})),
		},
		"AnotherSucceeded": {
			reason: "its migration was deleted, but the instance has its state",
			want:   map[string]time.Time{"host": minutes(33)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), migratedInstance("host")},
				migrationFor("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"AnotherCopies": {
			reason: "20 GiB may take 52 minutes, in which KubeVirt records nothing",
			want:   map[string]time.Time{"host": minutes(30).Add(52*time.Minute + 30*time.Second)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), copyingInstance("host", "20Gi")},
				migrationFor("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"EndlessCopy": {
			reason: "the deadline bounds it",
			want:   map[string]time.Time{"host": minutes(30).Add((1 << 20) * 150 * time.Second)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), copyingInstance("host", "7Ei")},
				migrationFor("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"AnotherNode": {
			reason: "queues of different nodes are independent",
			want:   map[string]time.Time{"host": {}, "other": minutes(33)},
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), migratedInstance("other")},
				migrationFor("a", transition{kubevirtv1.MigrationPending, 1})),
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.in.migrationProgress(), tc.reason)
		})
	}
}

// TestMigrationQueued shows which pending migrations wait only for migrations that the driver
// cannot see.
func TestMigrationQueued(t *testing.T) {
	t.Parallel()

	type instances = []*kubevirtv1.VirtualMachineInstance

	accepted := migrationFor("a", transition{kubevirtv1.MigrationPending, 1})
	rejected := accepted.DeepCopy()
	rejected.Status.Conditions = []kubevirtv1.VirtualMachineInstanceMigrationCondition{
		{Type: kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota, Status: corev1.ConditionTrue},
	}

	moving := migratedInstance("host")
	movingElsewhere := migratedInstance("other")
	moving.Status.MigrationState.EndTimestamp = nil
	movingElsewhere.Status.MigrationState.EndTimestamp = nil

	tests := map[string]struct {
		reason string
		in     *evacuations
		want   bool
	}{
		"NotAccepted": {
			reason: "virt-controller may be down",
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, migrationFor("a")),
		},
		"Accepted": {
			reason: "the places are taken by others",
			want:   true,
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, accepted),
		},
		"RejectedByQuota": {
			reason: "an end of other migrations may not help",
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, rejected),
		},
		"NotCreated": {
			reason: "there is no migration",
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}),
		},
		"BehindOwn": {
			reason: "the driver sees whether its own migration advances",
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), markedInstanceOn("b", "host")},
				accepted, migrationFor("b", transition{kubevirtv1.MigrationScheduling, 45})),
		},
		"BehindUsers": {
			reason: "a user has started the migration of another machine of the shoot",
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host"), moving}, accepted),
		},
		"BehindFailed": {
			reason: "it has ended",
			want:   true,
			in: newEvacuations(t, instances{markedInstanceOn("a", "host"), markedInstanceOn("b", "host")},
				accepted, migrationFor("b", transition{kubevirtv1.MigrationFailed, 45})),
		},
		"BehindAnotherNodes": {
			reason: "queues of different nodes are independent",
			want:   true,
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host"), movingElsewhere}, accepted),
		},
		"Begun": {
			reason: "it is not in the queue",
			in:     newEvacuations(t, instances{markedInstanceOn("a", "host")}, migrationFor("a", transition{kubevirtv1.MigrationScheduling, 45})),
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, tc.in.isQueued(markedInstanceOn("a", "host"), tc.in.busyNodes()), tc.reason)
		})
	}
}

// TestHandOffTime shows that the time in KubeVirt's queue does not count as running.
func TestHandOffTime(t *testing.T) {
	t.Parallel()

	handedOff := migrationFor("a", transition{kubevirtv1.MigrationPending, 0}, transition{kubevirtv1.MigrationScheduling, 60},
		transition{kubevirtv1.MigrationPreparingTarget, 61}, transition{kubevirtv1.MigrationTargetReady, 62})
	withoutTimes := handedOff.DeepCopy()
	withoutTimes.Status.PhaseTransitionTimestamps = nil

	instance := markedInstanceOn("a", "host")

	state, since := newEvacuations(t, nil, handedOff).migrationOf(instance)
	require.Equal(t, spi.MigrationRunning, state)
	require.Equal(t, minutes(61), since)

	state, since = newEvacuations(t, nil, withoutTimes).migrationOf(instance)
	require.Equal(t, spi.MigrationRunning, state)
	require.Equal(t, drainStart, since, "without timestamps of phases, its creation counts")
}
