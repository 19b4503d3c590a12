// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// leg is a distance between the controllers and the provider cluster.
type leg struct {
	harness.Distance

	name string
	// rounds are those with fifty machines at once. There are more of them where few requests are lost.
	rounds int
}

// legs are the columns of the table. The number of round trips follows from the nearest and the farthest of them.
var legs = []leg{
	{name: "0 ms", rounds: 1},
	{name: "50 ms", rounds: 1, Distance: harness.Distance{RoundTrip: 50 * time.Millisecond}},
	{name: "250 ms", rounds: 1, Distance: harness.Distance{RoundTrip: far}},
	{name: "250 ms, 0.1 % of requests lose their connection", rounds: 2, Distance: harness.Distance{RoundTrip: far, OneLostIn: 1000}},
}

const (
	far = 250 * time.Millisecond
	// nearest, farthest and lossy are the indices of legs.
	nearest, farthest, lossy = 0, 2, 3
)

// journey collects the rows of the table.
type journey struct {
	rows []string
}

// TestDistance measures machines whose controllers are far from the provider cluster: one at a time and fifty at once.
// The control cluster is near, and so are the tests, which see a VirtualMachine when it exists. One peer's machines can
// be measured alone, such as with -run '^TestDistance$/^driver$'.
func TestDistance(t *testing.T) {
	logByDefault(t)
	addLargeZone(t)

	j := &journey{}

	for _, peer := range peerStarts {
		t.Run(peer.name, func(t *testing.T) { j.measure(t, peer.start(t)) })
	}

	columns := []string{"controllers", "measurement"}
	for _, l := range legs {
		columns = append(columns, l.name)
	}

	require.NoError(t, printTable(os.Stdout, row(append(columns, "round trips")...), j.rows))
}

// measure adds the rows of a peer.
func (j *journey) measure(t *testing.T, p *peer) {
	t.Helper()

	p.live(t, p.witness(t), p.named("first", 1)...) // It fills caches, and opens connections.

	j.addLives(t, p, "one at a time", p.oneAfterTheOther(t))

	took, lost := p.together(t)
	how := fmt.Sprintf("%d at once", fifty)

	j.addLives(t, p, how, took)
	j.add(t, p, "lost connections, "+how, requests, lost)
}

// addLives adds the rows for lives at the first legs.
func (j *journey) addLives(t *testing.T, p *peer, how string, took []lives) {
	t.Helper()

	for i, m := range took[nearest].measured() {
		var values [][]float64
		for _, l := range took {
			values = append(values, l.measured()[i].values)
		}

		j.add(t, p, m.what+", "+how, m.in, values)
	}
}

// oneAfterTheOther measures machines that have the controllers to themselves, at all distances in turns, since the host's
// speed varies. No leg with losses is among them: so few requests lose no connection.
func (p *peer) oneAfterTheOther(t *testing.T) []lives {
	t.Helper()

	const rounds = 5

	took := make([]lives, lossy)

	for round := range rounds {
		for i, l := range legs[:lossy] {
			p.line.Move(l.Distance)

			took[i] = took[i].and(p.live(t, p.witness(t), p.named(fmt.Sprintf("one-%d-%d", i, round), 1)...))
		}
	}

	return took
}

// together measures fifty machines at once, and counts the lost connections.
func (p *peer) together(t *testing.T) (took []lives, lost [][]float64) {
	t.Helper()

	took = make([]lives, len(legs))

	for i, l := range legs {
		before := len(p.line.Lost())

		p.line.Move(l.Distance)

		for round := range l.rounds {
			took[i] = took[i].and(p.live(t, p.witness(t), p.named(fmt.Sprintf("many-%d-%d", i, round), fifty)...))
		}

		lost = append(lost, []float64{float64(len(p.line.Lost()) - before)})
	}

	return took, lost
}

// add adds a row. A duration of single machines has its number of round trips that follow each other: the time by which
// it is longer at the farthest leg, divided by that leg's round trip. A request that only has to arrive counts as half.
func (j *journey) add(t *testing.T, p *peer, what string, in quantity, values [][]float64) {
	t.Helper()

	cells := []string{p.name, what}
	for _, v := range values {
		cells = append(cells, in.of(v))
	}

	depth := ""
	if in == duration && len(values) == lossy {
		depth = fmt.Sprintf("%.1f", (median(values[farthest])-median(values[nearest]))/far.Seconds())
	}

	for len(cells) < 2+len(legs) {
		cells = append(cells, "")
	}

	j.rows = append(j.rows, row(append(cells, depth)...))
	t.Log(j.rows[len(j.rows)-1])
}
