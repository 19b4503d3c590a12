package evacuation_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestWatchesFollowTheClasses rotates credentials, class by class, and moves and forgets classes.
func TestWatchesFollowTheClasses(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	require.Empty(t, r.open(), "nobody has asked for anything, so another process may lead")

	r.see("z1", "a/1")
	r.see("z2", "a/1")
	r.requireWatches(t, "a/1")

	r.see("z1", "a/2")
	r.requireWatches(t, "a/2")

	r.see("z2", "a/1")
	r.see("z1", "a/2")
	r.see("z3", "b/1")
	r.requireWatches(t, "a/2", "b/1")

	r.see("z3", "c/1")
	r.requireWatches(t, "a/2", "c/1")

	r.clock.SetTime(r.clock.Now().Add(200 * time.Hour))
	r.see("z1", "a/2")
	r.see("z4", "d/1")
	r.set(nil)
	r.requireWatches(t, "a/2", "d/1")
}

func TestRequestsWithoutAccessAreIgnored(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	r.Seen(nil, nil)
	r.Seen(&v1alpha1.MachineClass{Provider: "aws"}, &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("x/1")}})
	r.Seen(&v1alpha1.MachineClass{}, &corev1.Secret{})
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")
}

func TestStepsAreTaken(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated")
	require.Contains(t, r.asked(), "migrate m")

	r.set(nil)
	r.await(t, "m Normal EvacuationEnded: To leave provider node host has taken the machine 0s: migrated")

	r.set(nil, spi.Evacuation{Machine: "n", UID: "2", Node: "host"})
	r.await(t, "n Normal EvacuationReplacing: To leave provider node host, the machine is replaced: it cannot be live-migrated")

	_, err := r.machines.MachineV1alpha1().Machines("shoot").Get(t.Context(), "n", metav1.GetOptions{})
	require.Error(t, err, "machine-controller-manager drains and replaces a deleted Machine")
	requireOutcomes(t, r, map[string]float64{"migrated": 1, "replaced": 0, "powered-off": 0, "cancelled": 0})

	r.set(nil)
	r.await(t, "n Normal EvacuationEnded: To leave provider node host has taken the machine 0s: replaced")
	requireOutcomes(t, r, map[string]float64{"migrated": 1, "replaced": 1, "powered-off": 0, "cancelled": 0})
}

// TestFailuresAreTold lets the provider cluster reject a migration, and
// shows that stale evacuations are ignored.
func TestFailuresAreTold(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(errors.New("no right"), spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Warning EvacuationFailed: To leave provider node host, the machine cannot be helped: no right")

	r.set(nil, spi.Evacuation{Machine: "n", UID: "2", Node: "stale"}, spi.Evacuation{Machine: "x", UID: "3", Node: "stale"})
	r.await(t, "m Normal EvacuationEnded: To leave provider node host has taken the machine 0s: cancelled")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated")

	_, err := r.machines.MachineV1alpha1().Machines("shoot").Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err, "its evacuation does not stand any more")
}

// TestMessagesAreBounded lets a provider cluster return a message that does not fit into an Event.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	begin := "To leave provider node host, the machine is replaced: it cannot be live-migrated: "
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Obstacle: strings.Repeat("é", 5000)})
	r.await(t, "m Normal EvacuationReplacing: "+begin+strings.Repeat("é", (1000-len(begin))/2)+" …")
}

// TestRefusedMigrationIsAReplacement lets a provider cluster reject migrations for hours: a
// provider cluster that never migrates must not block its own drain.
func TestRefusedMigrationIsAReplacement(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		err  error
		want string
	}{
		"Refused": {
			spi.ErrForbidden,
			"m Normal EvacuationReplacing: To leave provider node host, the machine is replaced: it cannot be live-migrated: KubeVirt has refused to for 1h0m0s",
		},
		"NotAsked": {
			spi.ErrUnauthenticated,
			"m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated",
		},
		"Away": {
			spi.ErrUnavailable,
			"m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, "m")
			r.see("z1", "a/1")
			r.requireWatches(t, "a/1")

			leaving := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
			r.set(tc.err, leaving)
			r.await(t, "m Warning EvacuationFailed: To leave provider node host, the machine cannot be helped: "+tc.err.Error())

			r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
			r.set(nil, leaving)
			r.await(t, tc.want)
		})
	}
}

// TestOnlyMigrationsAreRefused lets a provider cluster reject another request for hours.
func TestOnlyMigrationsAreRefused(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "hidden", Migratable: true})
	r.await(t, "m Warning EvacuationFailed: To leave provider node hidden, the machine cannot be helped: permission denied")

	r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated")
}

// TestNewCredentialsAreNotRefused rotates credentials that lacked a permission.
func TestNewCredentialsAreNotRefused(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	leaving := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
	failed := "m Warning EvacuationFailed: To leave provider node host, the machine cannot be helped: "

	r.set(spi.ErrForbidden, leaving)
	r.await(t, failed+"permission denied")
	r.set(spi.ErrUnavailable, leaving)
	r.await(t, failed+"provider cluster unavailable")

	r.see("z1", "a/2")
	r.requireWatches(t, "a/2")

	r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
	r.set(nil, leaving)
	r.await(t, "m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated")
}

// TestLongestWaitIsShown live-migrates one machine for half an hour while another one waits.
func TestLongestWaitIsShown(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	now := r.clock.Now()
	moving := spi.Evacuation{
		Machine: "m", UID: "1", Node: "host", Since: now.Add(-time.Hour), Migratable: true, Migration: spi.MigrationRunning, MigrationSince: now,
	}
	waiting := spi.Evacuation{Machine: "n", UID: "2", Node: "host", Since: now.Add(-time.Hour), Migratable: true}

	r.set(nil, moving, waiting)
	r.await(t, "n Normal EvacuationWaiting: To leave provider node host, the machine waits: MachineSet pool has 1 on their way already")

	r.clock.SetTime(now.Add(30 * time.Minute))
	r.set(nil, moving, waiting)
	requireLongestWait(t, r, 1800)

	r.set(nil)
	requireLongestWait(t, r, 0)
}

// TestControlClusterAway shows that evacuations stop while the control cluster
// is unavailable, and continue afterwards.
func TestControlClusterAway(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")

	var (
		mu   sync.Mutex
		away = true
		hits int
	)

	r.machines.PrependReactor("list", "machines", func(kubetesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()

		hits++

		return away, nil, errors.New("no route")
	})

	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()

		return hits > 2
	}, patience, often)
	require.Empty(t, r.asked())

	mu.Lock()
	away = false
	mu.Unlock()

	r.await(t, "m Normal EvacuationMigrating: To leave provider node host, the machine is live-migrated: it can be live-migrated")
}
