package providercluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// drained is when the drain of these tests began.
var drained = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func minutes(n int) time.Time { return drained.Add(time.Duration(n) * time.Minute) }

// seen returns evacuations that know these objects.
func seen(t *testing.T, instances []*kubevirtv1.VirtualMachineInstance, migrations ...*kubevirtv1.VirtualMachineInstanceMigration) *evacuations {
	t.Helper()

	e := &evacuations{
		session:        &session{clients: &providerapi.Clients{Namespace: "machines"}},
		seenInstances:  cache.NewSharedIndexInformer(&cache.ListWatch{}, &kubevirtv1.VirtualMachineInstance{}, 0, cache.Indexers{}),
		seenMigrations: cache.NewSharedIndexInformer(&cache.ListWatch{}, &kubevirtv1.VirtualMachineInstanceMigration{}, 0, cache.Indexers{}),
	}

	for _, instance := range instances {
		kept, err := withoutBallast(instance)
		require.NoError(t, err)
		require.NoError(t, e.seenInstances.GetStore().Add(kept))
	}

	for _, migration := range migrations {
		require.NoError(t, e.seenMigrations.GetStore().Add(migration))
	}

	return e
}

func leavingInstance(name, node string) *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "machines", UID: types.UID(name)},
		Status:     kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: node, EvacuationNodeName: node},
	}
}

// migratedInstance has left a node by a migration, whose object is gone.
func migratedInstance(name, from string, begun, ended int) *kubevirtv1.VirtualMachineInstance {
	instance := leavingInstance(name, "elsewhere")
	instance.Status.EvacuationNodeName = ""
	instance.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
		SourceNode: from, StartTimestamp: ptr.To(metav1.NewTime(minutes(begun))), EndTimestamp: ptr.To(metav1.NewTime(minutes(ended))),
	}

	return instance
}

// transition is a phase of a migration and the minute at which it began.
type transition struct {
	phase kubevirtv1.VirtualMachineInstanceMigrationPhase
	at    int
}

// migrationOff is the driver's migration of an instance off the node "host", created with the beginning of the drain.
func migrationOff(instance string, phases ...transition) *kubevirtv1.VirtualMachineInstanceMigration {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{
		Name: migrationName(types.UID(instance), "host"), Namespace: "machines", CreationTimestamp: metav1.NewTime(drained),
	}}

	for _, next := range phases {
		migration.Status.Phase = next.phase
		migration.Status.PhaseTransitionTimestamps = append(migration.Status.PhaseTransitionTimestamps,
			kubevirtv1.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
				Phase: next.phase, PhaseTransitionTimestamp: metav1.NewTime(minutes(next.at)),
			})
	}

	return migration
}

// TestMigrationProgress shows which times of KubeVirt's count as progress of a node's queue. The phases are those that virt-controller
// notes (TestLiveMigration in test/integration/evacuation).
func TestMigrationProgress(t *testing.T) {
	t.Parallel()

	type instances = []*kubevirtv1.VirtualMachineInstance

	tests := map[string]struct {
		reason string
		in     *evacuations
		want   map[string]time.Time
	}{
		"NotAccepted": {
			reason: "virt-controller has not seen it", want: map[string]time.Time{"host": {}},
			in: seen(t, instances{leavingInstance("a", "host")}, migrationOff("a")),
		},
		"Queued": {
			reason: "accepted is not yet worked on", want: map[string]time.Time{"host": {}},
			in: seen(t, instances{leavingInstance("a", "host")}, migrationOff("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"TargetCreated": {
			reason: "its turn has come", want: map[string]time.Time{"host": minutes(40)},
			in: seen(t, instances{leavingInstance("a", "host")}, migrationOff("a",
				transition{kubevirtv1.MigrationPending, 1}, transition{kubevirtv1.MigrationScheduling, 40})),
		},
		"AnotherFailed": {
			reason: "the place is free again", want: map[string]time.Time{"host": minutes(50)},
			in: seen(t, instances{leavingInstance("a", "host"), leavingInstance("b", "host")},
				migrationOff("a", transition{kubevirtv1.MigrationPending, 1}),
				migrationOff("b", transition{kubevirtv1.MigrationScheduling, 45}, transition{kubevirtv1.MigrationFailed, 50})),
		},
		"AnotherArrived": {
			reason: "its migration is deleted, the instance remembers it", want: map[string]time.Time{"host": minutes(33)},
			in: seen(t, instances{leavingInstance("a", "host"), migratedInstance("b", "host", 30, 33)},
				migrationOff("a", transition{kubevirtv1.MigrationPending, 1})),
		},
		"AnotherNode": {
			reason: "its queue is another one", want: map[string]time.Time{"host": {}, "other": minutes(33)},
			in: seen(t, instances{leavingInstance("a", "host"), migratedInstance("b", "other", 30, 33)},
				migrationOff("a", transition{kubevirtv1.MigrationPending, 1})),
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.in.progress(), tc.reason)
		})
	}
}

// TestMigrationRunsSinceItsHandOver shows that the time in KubeVirt's queue does not count as time in which a guest is moved.
func TestMigrationRunsSinceItsHandOver(t *testing.T) {
	t.Parallel()

	handed := migrationOff("a", transition{kubevirtv1.MigrationPending, 0}, transition{kubevirtv1.MigrationScheduling, 60},
		transition{kubevirtv1.MigrationPreparingTarget, 61}, transition{kubevirtv1.MigrationTargetReady, 62})
	untimed := handed.DeepCopy()
	untimed.Status.PhaseTransitionTimestamps = nil

	instance := leavingInstance("a", "host")

	how, since := seen(t, nil, handed).migrationOf(instance)
	require.Equal(t, spi.MigrationRunning, how)
	require.Equal(t, minutes(61), since)

	how, since = seen(t, nil, untimed).migrationOf(instance)
	require.Equal(t, spi.MigrationRunning, how)
	require.Equal(t, drained, since, "without a time of its own, its creation counts")
}
