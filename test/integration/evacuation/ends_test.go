// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// evacuated is a shoot under the real machine-controller-manager, with a pool of machines
// that must all be evacuated.
type evacuated struct {
	*harness.Shoot
	*harness.Observer

	machines map[string]bool
}

// evacuationArgs make the sidecar react to drains.
var evacuationArgs = []string{"--evacuation", "--machine-drain-timeout=10m"}

// newEvacuated runs a pool of three machines, and then evicts all of them.
func newEvacuated(t *testing.T, s *harness.Shoot, fields string) *evacuated {
	t.Helper()

	_, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)

	s.RunControllers(t, evacuationArgs...)
	s.ApplyCredentials(t)

	const many = 3

	s.AddPool(t, s.Name, many, harness.MergeFields(t, s.Spec("zone-a", harness.EphemeralRoot), fields))

	e := &evacuated{Shoot: s, machines: map[string]bool{}}
	for name := range s.AwaitRunning(t, many) {
		e.machines[name] = true
	}

	e.Observer = s.Watch(t, harness.NewTimeline(), map[string]int32{s.Name: many})

	for name := range e.machines {
		evict(t, s, name)
	}

	return e
}

// awaitBegin waits until the first Machine is being deleted.
func (e *evacuated) awaitBegin(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "a Machine is deleted", func(context.Context) (bool, error) { return len(e.Deletions()) > 0, nil })
}

// requireReplaced requires that all machines are eventually replaced, each once
// and one after the other.
func (e *evacuated) requireReplaced(t *testing.T) {
	t.Helper()

	harness.Eventually(t, "all Machines are replaced", func(context.Context) (bool, error) { return len(e.Deletions()) == len(e.machines), nil })

	for name := range e.AwaitRunning(t, len(e.machines)) {
		require.NotContains(t, e.machines, name)
	}

	require.Len(t, e.Deletions(), len(e.machines), "no Machine is replaced twice")
	e.RequireAtMostAway(t, 1)
	e.Print(t)
	e.AwaitEnd(t)
}

// TestSoakEvacuationOutlivesTheSidecar kills the sidecar during an evacuation.
func TestSoakEvacuationOutlivesTheSidecar(t *testing.T) {
	t.Parallel()

	e := newEvacuated(t, harness.NewShoot(t), `{}`)
	e.awaitBegin(t)
	e.KillSidecar(t, evacuationArgs...)
	e.Add("test", "the sidecar was killed and replaced")
	e.requireReplaced(t)
}

// TestSoakEvacuationOutlivesTheControlCluster cuts the sidecar off from the control
// cluster during an evacuation.
func TestSoakEvacuationOutlivesTheControlCluster(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	l := s.ProxyControl(t)
	e := newEvacuated(t, s, `{}`)
	reset := harness.FaultNamed(t, "reset before")

	e.awaitBegin(t)
	l.Down.Store(&reset)
	l.BringBack(t)
	e.Add("test", "the control cluster was unavailable")
	e.requireReplaced(t)
}

// TestSoakFailedMigrationIsAReplacement evicts machines that KubeVirt considers migratable,
// but whose migrations fail.
func TestSoakFailedMigrationIsAReplacement(t *testing.T) {
	t.Parallel()

	e := newEvacuated(t, harness.NewShoot(t), `{`+masquerade+`,"virtualMachineTemplate":{"spec":{"template":{
		"metadata":{"annotations":{"sim.lab/fault":"migration-fails"}}, "spec":{"evictionStrategy":"External"}}}}}`)
	e.requireReplaced(t)

	left, err := e.KubeVirt.KubevirtV1().VirtualMachineInstanceMigrations(e.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items, "a migration is deleted with its machine")
}

// TestSoakTwoDrainsAtOnce drains two hosts with machines of the same pools.
func TestSoakTwoDrainsAtOnce(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	z := addZone(t, 3)
	kubectl(t, "cordon", z.hosts[2])

	_, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	s.RunControllers(t, evacuationArgs...)
	s.ApplyCredentials(t)

	const many = 4

	s.AddPool(t, s.Name, many, s.Spec(z.name, harness.EphemeralRoot))
	before := s.AwaitRunning(t, many)
	kubectl(t, "uncordon", z.hosts[2])

	seen := s.Watch(t, harness.NewTimeline(), map[string]int32{s.Name: many})
	first := startDrain(t.Context(), t, s, z.hosts[0], seen.Timeline)
	startDrain(t.Context(), t, s, z.hosts[1], seen.Timeline).wait(t)
	first.wait(t)

	for name := range s.AwaitRunning(t, many) {
		require.NotContains(t, before, name)
	}

	require.Len(t, seen.Deletions(), many, "no Machine is replaced twice")
	seen.RequireAtMostAway(t, 1)
	seen.Print(t)
	kubectl(t, "uncordon", z.hosts[0])
	kubectl(t, "uncordon", z.hosts[1])
	s.AwaitEnd(t)
}

// TestCancelledDrain cancels a drain when its first machine is being evacuated. The others stay.
func TestCancelledDrain(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	s.Annotate(t, behaviour.ShutdownLatencyAnnotation, "5m") // Until the other evictions are cancelled.

	e := newEvacuated(t, s, `{}`)
	e.awaitBegin(t)

	first := e.Deletions()[0]
	others := slices.DeleteFunc(slices.Collect(maps.Keys(e.machines)), func(name string) bool { return name == first })

	for _, name := range others {
		e.RequireEvents(t, name, "EvacuationWaiting")
	}

	for _, name := range others {
		cancelEviction(t, e.Shoot, name)
	}

	for _, name := range others {
		e.RequireEvents(t, name, "EvacuationEnded")
	}

	e.Add("test", "the other evictions were cancelled")
	s.Annotate(t, behaviour.ShutdownLatencyAnnotation, "0s")

	after := e.AwaitRunning(t, len(e.machines))
	require.NotContains(t, after, first)
	require.Equal(t, []string{first}, e.Deletions())
	e.Print(t)
	e.AwaitEnd(t)
}
