// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// leg is a distance between the controllers and the provider cluster.
type leg struct {
	harness.Distance

	name string
	// alone and together are the numbers of rounds with one machine and with fifty at once.
	alone, together int
}

// legs are the columns of the table. The number of round trips follows from the nearest and the farthest of them. One request
// in a thousand is one or two of fifty machines; one in ten shows with single machines what each costs.
var legs = []leg{
	{name: "0 ms", alone: ten, together: 1},
	{name: "50 ms", alone: ten, together: 1, Distance: harness.Distance{RoundTrip: 50 * time.Millisecond}},
	{name: "250 ms", alone: ten, together: 1, Distance: harness.Distance{RoundTrip: far}},
	{name: "250 ms, 0.1 % of requests lose their connection", together: 2, Distance: harness.Distance{RoundTrip: far, OneLostIn: 1000}},
	{name: "250 ms, 10 % of them", alone: 2 * ten, Distance: harness.Distance{RoundTrip: far, OneLostIn: 10}},
}

const (
	far = 250 * time.Millisecond
	// nearest, farthest and lossy are the indices of legs.
	nearest, farthest, lossy = 0, 2, 4
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

	require.NoError(t, printTable(t.Context(), os.Stdout, row(append(columns, "round trips")...), j.rows))
}

// measure adds the rows of a peer.
func (j *journey) measure(t *testing.T, p *peer) {
	t.Helper()

	p.live(t, p.witness(t), p.next(1)...) // It fills caches, and opens connections.

	alone := p.oneAfterTheOther(t)

	for i, m := range alone[nearest].measured() {
		values := valuesOf(alone, i)
		j.add(t, p, m.what+", one at a time", cellsOf(m.in, values), roundTrips(m.in, values))
	}

	for _, m := range alone[lossy].applied() {
		cells := make([]string, len(legs))
		cells[lossy] = alone[lossy].added(m.values, p.line.Lost())

		if cells[lossy] == "" {
			continue
		}

		j.add(t, p, m.what+", one at a time: added by lost requests", cells, "")
	}

	took, lost := p.together(t)

	for i, m := range took[nearest].measured() {
		j.add(t, p, fmt.Sprintf("%s, %d at once", m.what, fifty), cellsOf(m.in, valuesOf(took, i)), "")
	}

	j.add(t, p, fmt.Sprintf("requests that lost their connection, %d at once", fifty), cellsOf(requests, lost), "")
}

// oneAfterTheOther measures machines that have the controllers to themselves, at all distances in turns, since the host's
// speed varies.
func (p *peer) oneAfterTheOther(t *testing.T) []lives {
	t.Helper()

	took := make([]lives, len(legs))
	w := p.witness(t)

	for round := range legs[lossy].alone {
		for i, l := range legs {
			if round >= l.alone {
				continue
			}

			p.line.Move(l.Distance)

			took[i] = took[i].and(p.live(t, w, p.next(1)...))
		}
	}

	return took
}

// together measures fifty machines at once, and counts the requests of each round that lost their connection.
func (p *peer) together(t *testing.T) (took []lives, lost [][]float64) {
	t.Helper()

	took = make([]lives, len(legs))
	w := p.witness(t)

	for i, l := range legs {
		p.line.Move(l.Distance)

		var ofRounds []float64

		for range l.together {
			before := len(p.line.Lost())
			took[i] = took[i].and(p.live(t, w, p.next(fifty)...))
			ofRounds = append(ofRounds, float64(len(p.line.Lost())-before))
		}

		lost = append(lost, ofRounds)
	}

	return took, lost
}

// valuesOf returns the values of the ith quantity at each leg.
func valuesOf(took []lives, i int) [][]float64 {
	var values [][]float64
	for _, l := range took {
		values = append(values, l.measured()[i].values)
	}

	return values
}

func cellsOf(in quantity, values [][]float64) []string {
	var cells []string
	for _, v := range values {
		cells = append(cells, in.of(v))
	}

	return cells
}

// add adds a row.
func (j *journey) add(t *testing.T, p *peer, what string, cells []string, depth string) {
	t.Helper()

	j.rows = append(j.rows, row(slices.Concat([]string{p.name, what}, cells, []string{depth})...))
	t.Log(j.rows[len(j.rows)-1])
}

// roundTrips returns how many round trips follow each other in a duration of single machines: the time by which it is longer
// at the farthest leg, divided by that leg's round trip. A request that only has to arrive counts as half.
func roundTrips(in quantity, values [][]float64) string {
	if in != duration || polled(values[nearest]) || polled(values[farthest]) {
		return ""
	}

	return fmt.Sprintf("%.1f", (median(values[farthest])-median(values[nearest]))/far.Seconds())
}

// polled reports whether durations are so long that they depend on when a controller polls, which hides round trips.
func polled(values []float64) bool {
	const longer = 5 // seconds

	return median(values) > longer
}

// added returns how much longer machines, which lived one at a time, took for one of the applied quantities if a request lost
// its connection meanwhile: the median and the most.
func (l lives) added(took []float64, lost []time.Time) string {
	var with, without []float64

	for i, began := range l.began {
		ended := began.Add(time.Duration(took[i] * float64(time.Second)))

		if slices.ContainsFunc(lost, func(at time.Time) bool { return at.After(began) && at.Before(ended) }) {
			with = append(with, took[i])
		} else {
			without = append(without, took[i])
		}
	}

	if len(with) == 0 || len(without) == 0 || polled(without) {
		return ""
	}

	usual := median(without)

	return fmt.Sprintf("%+.2f s, at most %+.2f s (%d of %d machines)", median(with)-usual, slices.Max(with)-usual, len(with), len(took))
}
