package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evacuated is a shoot under the real machine-controller-manager, with a pool of machines
// that must all be evacuated.
type evacuated struct {
	*shoot
	*witness

	machines map[string]bool
}

// evacuationArgs make the sidecar react to drains.
var evacuationArgs = []string{"--evacuation", "--machine-drain-timeout=10m"}

// newEvacuated runs a pool of three machines, and then evicts all of them.
func newEvacuated(t *testing.T, s *shoot, fields string) *evacuated {
	t.Helper()

	_, err := lab.AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)

	s.runControllers(t, evacuationArgs...)
	s.applyCredentials(t)

	const many = 3

	s.addPool(t, s.Name, many, layOver(t, s.spec("zone-a", ephemeralRoot), fields))

	e := &evacuated{shoot: s, machines: map[string]bool{}}
	for name := range s.awaitRunning(t, many) {
		e.machines[name] = true
	}

	e.witness = s.watch(t, newTimeline(), map[string]int32{s.Name: many})

	for name := range e.machines {
		s.evict(t, name)
	}

	return e
}

// awaitBegin waits until the first Machine is being deleted.
func (e *evacuated) awaitBegin(t *testing.T) {
	t.Helper()
	eventually(t, "a Machine is deleted", func(context.Context) (bool, error) { return len(e.deletions()) > 0, nil })
}

// requireReplaced requires that all machines are eventually replaced, each once
// and one after the other.
func (e *evacuated) requireReplaced(t *testing.T) {
	t.Helper()

	eventually(t, "all Machines are replaced", func(context.Context) (bool, error) { return len(e.deletions()) == len(e.machines), nil })

	for name := range e.awaitRunning(t, len(e.machines)) {
		require.NotContains(t, e.machines, name)
	}

	require.Len(t, e.deletions(), len(e.machines), "no Machine is replaced twice")
	e.requireAtMostAway(t, 1)
	e.print(t)
	e.awaitEnd(t)
}

// TestSoakEvacuationOutlivesTheSidecar kills the sidecar during an evacuation.
func TestSoakEvacuationOutlivesTheSidecar(t *testing.T) {
	t.Parallel()

	e := newEvacuated(t, newShoot(t), `{}`)
	e.awaitBegin(t)
	e.killSidecar(t, evacuationArgs...)
	e.add("test", "the sidecar was killed, and another runs")
	e.requireReplaced(t)
}

// TestSoakEvacuationOutlivesTheControlCluster cuts the sidecar off from the control
// cluster during an evacuation.
func TestSoakEvacuationOutlivesTheControlCluster(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	l := s.controlProxy(t)
	e := newEvacuated(t, s, `{}`)
	reset := faultNamed(t, "reset before")

	e.awaitBegin(t)
	l.down.Store(&reset)
	l.bringBack(t)
	e.add("test", "the control cluster was away")
	e.requireReplaced(t)
}

// TestSoakFailedMigrationIsAReplacement evicts machines that KubeVirt considers migratable,
// but whose migrations fail.
func TestSoakFailedMigrationIsAReplacement(t *testing.T) {
	t.Parallel()

	e := newEvacuated(t, newShoot(t), `{"networks":[{"pod":{},"masquerade":{}}],
		"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/fault":"migration-fails"}}}}}}`)
	e.requireReplaced(t)

	left, err := e.kubevirt.KubevirtV1().VirtualMachineInstanceMigrations(e.ProviderNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items, "a migration goes with its machine")
}

// TestSoakTwoDrainsAtOnce drains two hosts with machines of the same pools.
func TestSoakTwoDrainsAtOnce(t *testing.T) {
	t.Parallel()

	s, z := newShoot(t), addZone(t, 3)
	kubectl(t, "cordon", z.hosts[2])

	_, err := lab.AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)
	s.runControllers(t, evacuationArgs...)
	s.applyCredentials(t)

	const many = 4

	s.addPool(t, s.Name, many, s.spec(z.name, ephemeralRoot))
	before := s.awaitRunning(t, many)
	kubectl(t, "uncordon", z.hosts[2])

	seen := s.watch(t, newTimeline(), map[string]int32{s.Name: many})
	first := s.startDrain(t.Context(), t, z.hosts[0], seen.timeline)
	s.startDrain(t.Context(), t, z.hosts[1], seen.timeline).wait(t)
	first.wait(t)

	for name := range s.awaitRunning(t, many) {
		require.NotContains(t, before, name)
	}

	require.Len(t, seen.deletions(), many, "none was replaced twice")
	seen.requireAtMostAway(t, 1)
	seen.print(t)
	kubectl(t, "uncordon", z.hosts[0])
	kubectl(t, "uncordon", z.hosts[1])
	s.awaitEnd(t)
}

// TestCancelledDrain cancels a drain when its first machine is being evacuated. The others stay.
func TestCancelledDrain(t *testing.T) {
	t.Parallel()

	e := newEvacuated(t, newShoot(t), `{}`)
	e.awaitBegin(t)

	first := e.deletions()[0]
	for name := range e.machines {
		if name != first {
			e.cancelEviction(t, name)
			e.requireEvents(t, name, "EvacuationWaiting", "EvacuationEnded")
		}
	}

	e.add("test", "the other evictions were cancelled")

	after := e.awaitRunning(t, len(e.machines))
	require.NotContains(t, after, first)
	require.Equal(t, []string{first}, e.deletions())
	e.print(t)
	e.awaitEnd(t)
}
