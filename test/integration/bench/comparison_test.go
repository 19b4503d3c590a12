// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// comparison collects the rows of the table that compares two peers.
type comparison struct {
	ours, theirs *peer
	rows         []string
}

// TestPeers compares machine-controller-manager and this driver with Cluster API and its provider for KubeVirt: with the
// same provider cluster, the same VirtualMachines, and the same limits of requests.
func TestPeers(t *testing.T) {
	searched := harness.Lab().SidecarArgs
	harness.Lab().SidecarArgs = nil // Log at the default level, because logging takes time and memory.

	t.Cleanup(func() { harness.Lab().SidecarArgs = searched })

	addLargeZone(t)

	c := &comparison{ours: newDriverPeer(t), theirs: newClusterAPIPeer(t)}

	for _, measure := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"one at a time", c.oneAtATime},
		{"at once", c.atOnce},
		{"outage", c.outages},
		{"full zone", c.fullZones},
		{"size", c.sizes},
	} {
		t.Run(measure.name, func(t *testing.T) {
			known := len(c.rows)

			measure.run(t)

			for _, row := range c.rows[known:] {
				t.Log(row)
			}
		})
	}

	require.NoError(t, c.print(os.Stdout))
}

// print writes the table in Markdown.
func (c *comparison) print(to io.Writer) error {
	if err := printHost(to); err != nil {
		return err
	}

	table := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)

	fmt.Fprintf(table, "| measurement\t| %s\t| %s\t| ratio\t|\n|---\t|---\t|---\t|---\t|\n", c.ours.name, c.theirs.name)

	for _, row := range c.rows {
		fmt.Fprintln(table, row)
	}

	return table.Flush()
}

// quantity is how values are printed.
type quantity struct {
	unit   string
	digits int
}

var (
	requests  = quantity{}
	duration  = quantity{unit: " s", digits: 2}
	processor = quantity{unit: " s", digits: 3}
	size      = quantity{unit: " MiB"}
)

// of returns the median of values with their spread.
func (q quantity) of(values []float64) string {
	one := func(value float64) string { return fmt.Sprintf("%.*f", q.digits, value) }
	text := one(percentile(values, 50)) + q.unit

	if len(values) == 1 {
		return text
	}

	const enough = 10

	spread := one(slices.Min(values)) + " to " + one(slices.Max(values))
	if len(values) >= enough {
		spread = "P95 " + one(percentile(values, 95)) + ", " + spread
	}

	return text + " (" + spread + ")"
}

// add adds a row with the medians and their ratio.
func (c *comparison) add(what string, q quantity, ours, theirs []float64) {
	ratio := ""
	if least := percentile(ours, 50); least > 0 {
		ratio = fmt.Sprintf("%.2g", percentile(theirs, 50)/least)
	}

	c.rows = append(c.rows, fmt.Sprintf("| %s\t| %s\t| %s\t| %s\t|", what, q.of(ours), q.of(theirs), ratio))
}

// lives are what machines took from the request for their objects on, and used each until nothing was left of them.
type lives struct {
	created, started, known, requests, processor []float64
}

// addAll adds the rows for the lives of machines.
func (c *comparison) addLives(how string, ours, theirs lives) {
	c.add("machine applied to VirtualMachine created, "+how, duration, ours.created, theirs.created)
	c.add("machine applied to instance running, "+how, duration, ours.started, theirs.started)
	c.add("machine applied to machine shown as running with its Node, "+how, duration, ours.known, theirs.known)
	c.add("requests to the provider cluster per machine's life, "+how, requests, ours.requests, theirs.requests)
	c.add("processor time of both controllers per machine's life, "+how, processor, ours.processor, theirs.processor)
}

// witness records when objects of a peer were first in a state.
type witness struct {
	created, started, known *seen
}

func (p *peer) witness(t *testing.T) witness {
	t.Helper()

	return witness{created: seenVirtualMachines(t, p.Shoot), started: seenInstances(t, p.Shoot, running), known: p.seenRunning(t)}
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

	p.removeAll(t, machines)

	spent := p.used(t).minus(before)
	l.requests = []float64{float64(spent.requests) / float64(len(machines))}
	l.processor = []float64{spent.processor.Seconds() / float64(len(machines))}

	return l
}

// and adds further lives.
func (l lives) and(more lives) lives {
	return lives{
		created:   append(l.created, more.created...),
		started:   append(l.started, more.started...),
		known:     append(l.known, more.known...),
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

// removeAll deletes machines and waits until none is left, and nothing of them in the provider cluster.
func (p *peer) removeAll(t *testing.T, machines []string) {
	t.Helper()

	harness.ForEach(t, len(machines), harness.FewAtATime, func(ctx context.Context, i int) error { return p.remove(ctx, machines[i]) })
	harness.Within(t, longest, "all machines are gone", func(ctx context.Context) (bool, error) {
		left, err := p.left(ctx)
		if err != nil || left > 0 {
			return false, err
		}

		objects, err := p.Leftovers(ctx)

		return len(objects) == 0, err
	})
}

// use is what a peer has used so far.
type use struct {
	requests  int
	processor time.Duration
}

func (p *peer) used(t *testing.T) use {
	t.Helper()

	u := use{requests: len(p.line.Calls())}
	for _, one := range p.processes {
		u.processor += processorTime(t, one)
	}

	return u
}

func (u use) minus(before use) use {
	return use{requests: u.requests - before.requests, processor: u.processor - before.processor}
}

// processorTime returns the processor time that a process has used: the fields utime and stime of proc(5), of which
// Linux counts a hundred a second for user space.
func processorTime(t *testing.T, p *process.Process) time.Duration {
	t.Helper()

	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	require.NoError(t, err)

	_, fields, found := strings.Cut(string(stat), ") ")
	require.True(t, found)

	const (
		skipped = 11
		tick    = time.Second / 100
	)

	var user, system int64

	_, err = fmt.Sscan(strings.Join(strings.Fields(fields)[skipped:skipped+2], " "), &user, &system)
	require.NoError(t, err)

	return time.Duration(user+system) * tick
}

func secondsOf(took []time.Duration) []float64 {
	var all []float64
	for _, d := range took {
		all = append(all, d.Seconds())
	}

	return all
}

// named returns new names of machines of a peer.
func (p *peer) named(what string, many int) []string {
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("%s-%s-%d", p.Name, what, i))
	}

	return names
}
