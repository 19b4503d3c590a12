// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// lives are what machines took from the request for their objects or for their deletion on, and used each until nothing
// was left of them.
type lives struct {
	began                                              []time.Time
	created, started, known, gone, requests, processor []float64
}

// measured is one quantity of lives.
type measured struct {
	what   string
	in     quantity
	values []float64
}

// applied returns the quantities that begin when a machine is applied. The guests join within a second of their instances,
// unlike real ones: see comparison.joining.
func (l lives) applied() []measured {
	return []measured{
		{"machine applied to VirtualMachine created", duration, l.created},
		{"machine applied to instance running", duration, l.started},
		{"machine applied to machine shown as running, of a guest that joins within a second", duration, l.known},
	}
}

// measured returns all quantities of lives, in the order of a machine's life.
func (l lives) measured() []measured {
	return append(l.applied(),
		measured{"machine deleted to its object gone", duration, l.gone},
		measured{"requests to the provider cluster per machine's life", requests, l.requests},
		measured{"processor time of both controllers per machine's life", processor, l.processor},
	)
}

// witness records when objects of a peer were first in a state.
type witness struct {
	created, started, known, gone *seen
}

func (p *peer) witness(t *testing.T) witness {
	t.Helper()

	return witness{
		created: seenVirtualMachines(t, p.Shoot),
		started: seenInstances(t, p.Shoot, running),
		known:   p.seenRunning(t),
		gone:    p.seenGone(t),
	}
}

// live applies machines at once, and deletes them when all of them run.
func (p *peer) live(t *testing.T, w witness, machines ...string) lives {
	t.Helper()

	before := p.used(t)
	began := p.addAll(t, machines, largeZone)
	l := lives{
		known:   secondsOf(w.known.since(t, began)),
		created: secondsOf(w.created.since(t, began)),
		started: secondsOf(w.started.since(t, began)),
	}

	for _, name := range slices.Sorted(maps.Keys(began)) {
		l.began = append(l.began, began[name])
	}

	l.gone = secondsOf(w.gone.since(t, p.removeAll(t, machines)))

	spent := p.used(t).minus(before)
	if len(machines) == 1 {
		t.Logf("requests of %s for %s: %v", p.name, machines[0], p.line.Calls()[before.requests:])
	}

	l.requests = []float64{float64(spent.requests) / float64(len(machines))}
	l.processor = []float64{spent.processor.Seconds() / float64(len(machines))}

	return l
}

// and adds further lives.
func (l lives) and(more lives) lives {
	return lives{
		began:     append(l.began, more.began...),
		created:   append(l.created, more.created...),
		started:   append(l.started, more.started...),
		known:     append(l.known, more.known...),
		gone:      append(l.gone, more.gone...),
		requests:  append(l.requests, more.requests...),
		processor: append(l.processor, more.processor...),
	}
}

// addAll applies machines at once, and returns when each was applied.
func (p *peer) addAll(t *testing.T, machines []string, zone string) map[string]time.Time {
	t.Helper()

	began := &seen{at: map[string]time.Time{}}

	harness.ForEach(t, len(machines), harness.FewAtATime, func(ctx context.Context, i int) error { return p.prepare(ctx, machines[i]) })
	harness.ForEach(t, len(machines), fifty, func(ctx context.Context, i int) error {
		began.note(machines[i])

		return p.add(ctx, machines[i], zone)
	})

	return began.at
}

// removeAll deletes machines and waits until none is left, and nothing of them in the provider cluster. It also deletes their
// Nodes, which Cluster API leaves behind, since it does not manage the control plane. It returns when each deletion was requested.
func (p *peer) removeAll(t *testing.T, machines []string) map[string]time.Time {
	t.Helper()

	began := &seen{at: map[string]time.Time{}}

	harness.ForEach(t, len(machines), harness.FewAtATime, func(ctx context.Context, i int) error {
		began.note(machines[i])

		return p.remove(ctx, machines[i])
	})
	harness.Within(t, limit(len(machines)), "all machines are gone", func(ctx context.Context) (bool, error) {
		left, err := p.left(ctx)
		if err != nil || left > 0 {
			return false, err
		}

		objects, err := p.Leftovers(ctx)

		return len(objects) == 0, err
	})
	harness.ForEach(t, len(machines), harness.FewAtATime, func(ctx context.Context, i int) error {
		err := p.Target.CoreV1().Nodes().Delete(ctx, machines[i], metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}

		return err
	})

	return began.at
}

// use is what a peer has used so far.
type use struct {
	requests  int
	processor time.Duration
}

func (p *peer) used(t *testing.T) use {
	t.Helper()

	u := use{requests: p.line.Count()}
	for _, one := range p.processes {
		u.processor += processorTime(t, one)
	}

	return u
}

func (u use) minus(before use) use {
	return use{requests: u.requests - before.requests, processor: u.processor - before.processor}
}

// processorTime returns the processor time that a process has used.
func processorTime(t *testing.T, p *process.Process) time.Duration {
	t.Helper()

	used, err := process.TimeOf(p.PID())
	require.NoError(t, err)

	return used
}

// memoryOf returns the memory of a process.
func memoryOf(t *testing.T, p *process.Process) process.Memory {
	t.Helper()

	used, err := process.MemoryOf(p.PID())
	require.NoError(t, err)

	return used
}

func secondsOf(took []time.Duration) []float64 {
	var all []float64
	for _, d := range took {
		all = append(all, d.Seconds())
	}

	return all
}

// next returns names of machines that no other machine of the peer has had.
func (p *peer) next(many int) []string {
	var names []string

	for range many {
		names = append(names, nthMachine(p.Shoot, p.named))
		p.named++
	}

	return names
}
