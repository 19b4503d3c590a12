// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// race is a race between the sweep of the image of a deleted class, and the creation of a machine
// that is cloned from this image.
type race struct {
	name string
	// held is the request, as harness.CallOf names it, that waits until the other side is done.
	held string
	// processes is 1 if both sides are one process, otherwise 2.
	processes int
	// worst forces the race, and requires its expected outcome.
	worst func(*racers, *testing.T)
}

// races returns the worst cases: the sweep has found the image unused, but not deleted it yet; or
// CreateMachine has ensured the image, but not created the VirtualMachine yet.
func races() []race {
	return []race{
		{name: "the sweep's deletion waits, two processes", held: "delete datavolumes", processes: 2, worst: (*racers).deletionAfterMachine},
		{name: "the machine waits, two processes", held: "create virtualmachines", processes: 2, worst: (*racers).machineAfterDeletion},
		{name: "the sweep's deletion waits, one process", held: "delete datavolumes", processes: 1, worst: (*racers).machineWaitsForDeletion},
		{name: "the machine waits, one process", held: "create virtualmachines", processes: 1, worst: (*racers).sweepKeepsAway},
	}
}

// TestRaceOfSweepAndCreation forces each race once.
func TestRaceOfSweepAndCreation(t *testing.T) {
	t.Parallel()

	for _, r := range races() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(t, harness.NewShoot(t))
		})
	}
}

// run forces the race, and requires that the machine gets its image, and that no object is left
// after its deletion.
func (r *race) run(t *testing.T, s *harness.Shoot) {
	t.Helper()

	contest := newRacers(t, s, r)
	r.worst(contest, t)

	// The grace period is far shorter than in the sidecar, so that the repair begins soon.
	// AwaitRecovery ignores other failures, which occur in a busy lab.
	contest.m.AwaitRecovery(t, contest.creator)
	require.NoError(t, contest.m.Remove(t.Context(), contest.creator))
	s.RequireNothingLeft(t)
}

// racers are the two sides: creator creates the machine m, and sweeper deletes the last machine of
// a MachineClass with the same image.
type racers struct {
	*harness.Shoot

	m, last          *harness.Machine
	creator, sweeper driver.Driver
	gate             *gate
}

// newRacers returns the two sides after the image is complete and known to the processes.
func newRacers(t *testing.T, s *harness.Shoot, r *race) *racers {
	t.Helper()

	c := &racers{Shoot: s, m: s.NewMachine("zone-a", harness.ImportedRoot), last: s.NewMachine("zone-a", harness.ImportedRoot), gate: newGate()}
	c.last.Class.Name = "deleted"
	options := harness.Settings{Grace: time.Second, Wait: time.Second, Wrap: c.gate.wrap}

	c.creator = harness.NewDriver(options)
	c.sweeper = c.creator

	if r.processes == 2 {
		c.sweeper = harness.NewDriver(options)
	}

	_, err := c.last.Create(t.Context(), c.creator)
	require.NoError(t, err)
	s.AwaitImage(t, s.Rendered(t, c.m).Name, cdiv1beta1.Succeeded)
	require.NoError(t, c.last.Remove(t.Context(), c.creator))
	c.last.DeleteClass()
	c.gate.hold(r.held)

	return c
}

func (c *racers) create(t *testing.T) error {
	t.Helper()

	_, err := c.m.Create(t.Context(), c.creator)

	return err
}

// sweep deletes the last machine again, which deletes the image if it is not in use.
func (c *racers) sweep(t *testing.T) error {
	t.Helper()

	return c.last.Remove(t.Context(), c.sweeper)
}

// image returns the UID of the image; empty if it does not exist.
func (c *racers) image(t *testing.T) types.UID {
	t.Helper()

	return c.Images(t)[c.Rendered(t, c.m).Name]
}

// deletionAfterMachine deletes the image of a machine that the sweep has not seen.
// InitializeMachine creates it again.
func (c *racers) deletionAfterMachine(t *testing.T) {
	t.Helper()

	before := c.image(t)
	ended := c.background(func() error { return c.sweep(t) })

	<-c.gate.reached
	require.NoError(t, c.create(t))
	c.gate.open()
	require.NoError(t, <-ended)
	require.NotEqual(t, before, c.image(t))
}

// machineAfterDeletion creates the VirtualMachine after the image was deleted.
func (c *racers) machineAfterDeletion(t *testing.T) {
	t.Helper()

	ended := c.background(func() error { return c.create(t) })

	<-c.gate.reached
	require.NoError(t, c.sweep(t))
	require.Empty(t, c.image(t))
	c.gate.open()
	require.NoError(t, <-ended)
}

// machineWaitsForDeletion requires that a process does not create a machine from an image that it
// is deleting: it first creates the image again.
func (c *racers) machineWaitsForDeletion(t *testing.T) {
	t.Helper()

	swept := c.background(func() error { return c.sweep(t) })

	<-c.gate.reached

	created := c.background(func() error { return c.create(t) })

	c.gate.open()
	require.NoError(t, <-swept)
	require.NoError(t, <-created)

	calls := c.gate.made()
	deleted := slices.Index(calls, "delete datavolumes")
	require.Less(t, deleted, slices.Index(calls, "create virtualmachines"), "%v", calls)
	require.Contains(t, calls[deleted:slices.Index(calls, "create virtualmachines")], "create datavolumes", "%v", calls)
}

// sweepKeepsAway requires that a process does not delete an image from which it is creating a
// machine.
func (c *racers) sweepKeepsAway(t *testing.T) {
	t.Helper()

	before := c.image(t)
	created := c.background(func() error { return c.create(t) })

	<-c.gate.reached
	require.NoError(t, c.sweep(t))
	require.Equal(t, before, c.image(t))
	c.gate.open()
	require.NoError(t, <-created)
}

func (*racers) background(do func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- do() }()

	return ended
}

// gate blocks the first request of a kind until it is opened, and records the order in which other
// requests are answered.
type gate struct {
	reached chan struct{}
	through chan struct{}
	once    sync.Once

	mu sync.Mutex
	// held is the kind, as harness.CallOf names it; empty: none.
	held  string
	calls []string
}

func newGate() *gate {
	return &gate{reached: make(chan struct{}), through: make(chan struct{})}
}

func (g *gate) hold(call string) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.held = call
	g.calls = nil
}

func (g *gate) holds(call string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.held == call
}

func (g *gate) open() { close(g.through) }

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return harness.Transport(func(r *http.Request) (*http.Response, error) {
		call := harness.CallOf(r.Method, r.URL)
		if g.holds(call) {
			g.once.Do(func() { close(g.reached) })

			select {
			case <-g.through:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}

		resp, err := next.RoundTrip(r)

		g.mu.Lock()
		defer g.mu.Unlock()

		g.calls = append(g.calls, call)

		return resp, err
	})
}

// made returns the writes in the order of their answers.
func (g *gate) made() []string {
	g.mu.Lock()
	defer g.mu.Unlock()

	writes := sets.New("create", "delete")

	return slices.DeleteFunc(slices.Clone(g.calls), func(call string) bool {
		verb, _, _ := strings.Cut(call, " ")

		return !writes.Has(verb)
	})
}
