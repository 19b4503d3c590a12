// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation_test

import (
	"errors"
	"slices"
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

// TestController_WatchesFollowClasses rotates credentials, class by class, and moves and forgets classes.
func TestController_WatchesFollowClasses(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	require.Empty(t, r.activeWatches(), "without a request, another process may be the leader")

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

func TestObserve_WithoutAccess(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	r.Observe(nil, nil)
	r.Observe(&v1alpha1.MachineClass{Provider: "aws"}, &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte("x/1")}})
	r.Observe(&v1alpha1.MachineClass{}, &corev1.Secret{})
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")
}

func TestPerform(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host")
	require.Contains(t, r.sentRequests(), "migrate m")

	r.set(nil)
	r.await(t, "m Normal EvacuationEnded: Evacuation from provider node host ended after 0s: migrated")

	r.set(nil, spi.Evacuation{Machine: "n", UID: "2", Node: "host"})
	r.await(t, "n Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: it cannot be live-migrated")

	_, err := r.machines.MachineV1alpha1().Machines("shoot").Get(t.Context(), "n", metav1.GetOptions{})
	require.Error(t, err, "machine-controller-manager drains and replaces a deleted Machine")
	requireOutcomes(t, r, map[string]float64{"migrated": 1, "replaced": 0, "powered-off": 0, "cancelled": 0})

	sent := r.sentRequests()
	r.set(nil, spi.Evacuation{Machine: "n", UID: "2", Node: "host", ShuttingDown: true})
	requireLongestWait(t, r, 0)
	requireOutcomes(t, r, map[string]float64{"migrated": 1, "replaced": 0, "powered-off": 0, "cancelled": 0})
	require.Equal(t, sent, r.sentRequests(), "a guest that shuts down leaves its node anyway")

	r.set(nil)
	r.await(t, "n Normal EvacuationEnded: Evacuation from provider node host ended after 0s: replaced")
	requireOutcomes(t, r, map[string]float64{"migrated": 1, "replaced": 1, "powered-off": 0, "cancelled": 0})
}

// TestController_ReportsFailures lets the provider cluster reject a migration, and
// shows that stale evacuations are ignored.
func TestController_ReportsFailures(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(errors.New("no permission"), spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: no permission")

	r.set(nil, spi.Evacuation{Machine: "n", UID: "2", Node: "stale"}, spi.Evacuation{Machine: "x", UID: "3", Node: "stale"})
	r.await(t, "m Normal EvacuationEnded: Evacuation from provider node host ended after 0s: cancelled")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host")

	_, err := r.machines.MachineV1alpha1().Machines("shoot").Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err, "its evacuation is no longer necessary")
}

// TestRecordEvent_BoundsMessage lets a provider cluster return a message that does not fit into an Event.
func TestRecordEvent_BoundsMessage(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	prefix := "Replacing the machine to evacuate it from provider node host: it cannot be live-migrated: "
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", NotMigratableReason: strings.Repeat("é", 5000)})
	r.await(t, "m Normal EvacuationReplacing: "+prefix+strings.Repeat("é", (1000-len(prefix))/2)+" …")
}

// TestController_ReplacesAfterRejectedMigrations lets a provider cluster reject migrations for hours: a
// provider cluster that never migrates must not block its own drain.
func TestController_ReplacesAfterRejectedMigrations(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		err  error
		want string
	}{
		"Rejected": {
			spi.ErrForbidden,
			"m Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: it has waited longer than 1h0m0s, and it cannot be live-migrated: the provider cluster has rejected the migration for longer than 1h0m0s",
		},
		"Unauthenticated": {
			spi.ErrUnauthenticated,
			"m Normal EvacuationMigrating: Live-migrating the machine away from provider node host: it has waited longer than 1h0m0s",
		},
		"Unavailable": {
			spi.ErrUnavailable,
			"m Normal EvacuationMigrating: Live-migrating the machine away from provider node host: it has waited longer than 1h0m0s",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, "m")
			r.see("z1", "a/1")
			r.requireWatches(t, "a/1")

			evacuated := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
			r.set(tc.err, evacuated)
			r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: "+tc.err.Error())

			r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
			r.set(nil, evacuated)
			r.await(t, tc.want)
		})
	}
}

// TestEvacuate_RejectedMigration rejects the migration of one machine of a MachineDeployment that may
// migrate one at a time.
func TestEvacuate_RejectedMigration(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.rejects = "m"
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}, spi.Evacuation{Machine: "n", UID: "2", Node: "host", Migratable: true})
	r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: permission denied")
	r.await(t, "n Normal EvacuationMigrating: Live-migrating the machine away from provider node host")
	require.NotContains(t, strings.Join(r.recordedEvents(), "\n"), "m Normal EvacuationWaiting", "the rejection is what matters")
}

// TestEvacuate_RejectedMigrations rejects all migrations of a MachineDeployment: the second machine does not
// wait for the timeout of the first one.
func TestEvacuate_RejectedMigrations(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	m := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
	n := spi.Evacuation{Machine: "n", UID: "2", Node: "host", Migratable: true}
	r.set(spi.ErrForbidden, m, n)
	r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: permission denied")
	r.await(t, "n Warning EvacuationFailed: Failed to evacuate machine from provider node host: permission denied")

	r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))

	const rejected = "it has waited longer than 1h0m0s, and it cannot be live-migrated: the provider cluster has rejected the migration for longer than 1h0m0s"

	r.set(spi.ErrForbidden, m, n)
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(r.recordedEvents(), "\n"), "Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: "+rejected)
	}, waitTimeout, pollInterval)

	left := []spi.Evacuation{m, n}
	if slices.ContainsFunc(r.recordedEvents(), func(event string) bool { return strings.HasPrefix(event, "m Normal EvacuationReplacing") }) {
		left = left[1:]
	} else {
		left = left[:1]
	}

	r.set(spi.ErrForbidden, left...)
	r.await(t, left[0].Machine+" Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: "+rejected)
}

// TestEvacuate_WaitAfterRejections lets a machine wait whose migration has been rejected for longer than the
// timeout: it is no longer tried, so that the rejection is no longer the reason.
func TestEvacuate_WaitAfterRejections(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	later := r.clock.Now().Add(time.Hour + time.Minute)
	m := spi.Evacuation{Machine: "m", UID: "1", Node: "host", RequestedAt: later, Migratable: true}

	r.set(spi.ErrForbidden, m)
	r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: permission denied")

	r.set(spi.ErrForbidden, m, spi.Evacuation{Machine: "n", UID: "2", Node: "host", RequestedAt: later, Migration: spi.MigrationRunning, MigrationSince: later})
	r.await(t, "n Normal EvacuationMigrating: Live-migrating the machine away from provider node host: the live migration is Running")

	r.clock.SetTime(later)
	r.await(t, "m Normal EvacuationWaiting: Waiting to evacuate the machine from provider node host: MachineSet pool already has 1 Machine(s) being deleted or migrated")
}

// TestController_OtherRequestRejected lets a provider cluster reject another request than a migration:
// the driver still migrates the machine later.
func TestController_OtherRequestRejected(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "hidden", Migratable: true})
	r.await(t, "m Warning EvacuationFailed: Failed to evacuate machine from provider node hidden: permission denied")

	r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	r.await(t, "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host: it has waited longer than 1h0m0s")
}

// TestController_NewCredentialsResetRejections rotates credentials that lacked a permission.
func TestController_NewCredentialsResetRejections(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	evacuated := spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true}
	failed := "m Warning EvacuationFailed: Failed to evacuate machine from provider node host: "

	r.set(spi.ErrForbidden, evacuated)
	r.await(t, failed+"permission denied")
	r.set(spi.ErrUnavailable, evacuated)
	r.await(t, failed+"provider cluster unavailable")

	r.see("z1", "a/2")
	r.requireWatches(t, "a/2")

	r.clock.SetTime(r.clock.Now().Add(2 * time.Hour))
	r.set(nil, evacuated)
	r.await(t, "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host: it has waited longer than 1h0m0s")
}

// TestController_DeadlineWithoutRequestTime evacuates a machine of an unhealthy pool on a KubeVirt before 1.7,
// which does not record when an evacuation was requested.
func TestController_DeadlineWithoutRequestTime(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	n, err := r.machines.MachineV1alpha1().Machines("shoot").Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)

	n.Status.CurrentStatus.Phase = v1alpha1.MachineUnknown
	_, err = r.machines.MachineV1alpha1().Machines("shoot").Update(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)

	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	requested := spi.Evacuation{Machine: "m", UID: "1", Node: "host"}
	r.set(nil, requested)
	r.await(t, "m Normal EvacuationWaiting: Waiting to evacuate the machine from provider node host: 0 of 1 other Machines of MachineSet pool are Running")

	// One deadline for each of two replicas.
	r.clock.SetTime(r.clock.Now().Add(2*time.Hour + time.Minute))
	r.set(nil, requested)
	r.await(t, "m Normal EvacuationReplacing: Replacing the machine to evacuate it from provider node host: "+
		"it has waited longer than 1h0m0s, and it cannot be live-migrated")
}

// TestLongestWaitMetric live-migrates one machine for half an hour while another one waits.
func TestLongestWaitMetric(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m", "n")
	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")

	now := r.clock.Now()
	migrating := spi.Evacuation{
		Machine:        "m",
		UID:            "1",
		Node:           "host",
		RequestedAt:    now.Add(-time.Hour),
		Migratable:     true,
		Migration:      spi.MigrationRunning,
		MigrationSince: now,
	}
	waiting := spi.Evacuation{Machine: "n", UID: "2", Node: "host", RequestedAt: now.Add(-time.Hour), Migratable: true}

	r.set(nil, migrating, waiting)
	r.await(t, "n Normal EvacuationWaiting: Waiting to evacuate the machine from provider node host: MachineSet pool already has 1 Machine(s) being deleted or migrated")

	r.clock.SetTime(now.Add(30 * time.Minute))
	r.set(nil, migrating, waiting)
	requireLongestWait(t, r, 1800)

	r.set(nil)
	requireLongestWait(t, r, 0)
}

// TestController_ControlClusterUnavailable shows that evacuations stop while the control cluster
// is unavailable, and continue afterwards.
func TestController_ControlClusterUnavailable(t *testing.T) {
	t.Parallel()

	r := newRig(t, "m")

	var (
		mu          sync.Mutex
		unavailable = true
		requests    int
	)

	r.machines.PrependReactor("list", "machines", func(kubetesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()

		requests++

		return unavailable, nil, errors.New("no route")
	})

	r.see("z1", "a/1")
	r.requireWatches(t, "a/1")
	r.set(nil, spi.Evacuation{Machine: "m", UID: "1", Node: "host", Migratable: true})
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()

		return requests > 2
	}, waitTimeout, pollInterval)
	require.Empty(t, r.sentRequests())

	mu.Lock()
	unavailable = false
	mu.Unlock()

	r.await(t, "m Normal EvacuationMigrating: Live-migrating the machine away from provider node host")
}
