// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// orphan is the key of a VirtualMachine without a Machine.
var orphan = machineKey{name: "server/ns/m", uid: "u"}

// TestRecordSighting runs machine-controller-manager's passes, half an hour apart: it lists the
// machines, and has those deleted that it does not know.
func TestRecordSighting(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		// passes are set if the pass reports the machine as an orphan.
		passes []bool
		want   time.Duration
	}{
		"Orphan":      {"it is one in each pass", []bool{true, true, true}, time.Hour},
		"Glitches":    {"a pass in between knew its Machine", []bool{true, false, true}, 0},
		"KnownBefore": {"its Machine is gone since", []bool{false, true, true}, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			clock := clocktesting.NewFakeClock(time.Now())
			m := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: 10 * time.Minute, OrphanPeriod: 30 * time.Minute})

			var row time.Duration

			for _, reported := range tc.passes {
				m.recordListing(caller.ThisProcess, orphan)
				clock.Step(time.Second)

				if reported {
					row = m.recordSighting(caller.ThisProcess, orphan)
				}

				clock.Step(30*time.Minute - time.Second)
			}

			require.Equal(t, tc.want, row, tc.reason)
		})
	}
}

// TestCheckOrphan_RestartedCaller restarts a machine controller with an empty cache, twice,
// while the driver keeps running.
func TestCheckOrphan_RestartedCaller(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	p := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: 10 * time.Minute, OrphanPeriod: 25 * time.Minute})
	c := &providerapi.Clients{Namespace: "ns"}
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}}

	asked := func(by caller.ID) error { return p.checkOrphan(caller.With(t.Context(), by), c, vm) }

	for _, process := range []caller.ID{"first", "second", "third", caller.Unknown, caller.Unknown, caller.ThisProcess} {
		require.ErrorIs(t, asked(process), spi.ErrConflict, process)
		clock.Step(12 * time.Minute)
	}

	require.NoError(t, asked("third"), "it has known for long")
	p.endSightings(keyOf(c, vm.Name, vm.UID))
	require.ErrorIs(t, asked("second"), spi.ErrConflict, "it has a Machine")
}

// TestRecordListing_OtherCallers has a process list between two sightings of another one:
// only the own list of a process ends its sightings.
func TestRecordListing_OtherCallers(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: time.Hour})

	require.Zero(t, m.recordSighting("first", orphan))

	for _, by := range []caller.ID{"first", "second", "second", caller.Unknown, caller.Unknown} {
		clock.Step(time.Minute)
		m.recordListing(by, orphan)
	}

	require.Equal(t, 5*time.Minute, m.recordSighting("first", orphan))
	clock.Step(time.Minute)
	m.recordListing("first", orphan)
	clock.Step(time.Minute)
	m.recordListing("first", orphan)
	require.Zero(t, m.recordSighting("first", orphan))
}

// TestRecordSighting_Expiry has a sighting long after the last one.
func TestRecordSighting_Expiry(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: 10 * time.Minute})

	require.Zero(t, m.recordSighting("first", orphan))
	clock.Step(10 * time.Minute)
	require.Equal(t, 10*time.Minute, m.recordSighting("first", orphan))
	clock.Step(10*time.Minute + time.Second)
	require.Zero(t, m.recordSighting("second", orphan), "the record itself is still in use")
	require.Zero(t, m.recordSighting("first", orphan))
}

// TestRecordSighting_Bound verifies that sightings are reset when there are more than maxSighters callers.
func TestRecordSighting_Bound(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakeClock(time.Now())
	m := NewMachines(nil, nil, Options{Clock: clock, OrphanGracePeriod: time.Hour})

	for i := range maxSighters {
		require.Zero(t, m.recordSighting(caller.ID(fmt.Sprint("process", i)), orphan))
	}

	clock.Step(time.Minute)
	require.Equal(t, time.Minute, m.recordSighting("process0", orphan))
	require.Zero(t, m.recordSighting("another", orphan))
	require.Zero(t, m.recordSighting("process0", orphan))
	m.peek(orphan, func(r *record) { require.Len(t, r.sightings, 2) })
}
