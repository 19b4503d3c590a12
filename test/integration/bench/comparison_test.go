// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// comparison collects the rows of a table that compares two peers.
type comparison struct {
	names, rows []string
}

// TestPeers compares machine-controller-manager and this driver with Cluster API and its provider for KubeVirt: with the
// same provider cluster, the same VirtualMachines, and the same limits of requests. Each part starts both anew, and can be
// run alone, such as with -run '^TestPeers$/^outage$'.
func TestPeers(t *testing.T) {
	logByDefault(t)

	c := &comparison{}

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"one at a time", c.oneAtATime},
		{"joining", c.joining},
		{"at once", func(t *testing.T) { c.atOnce(t, clusterAPIWorkers, "") }},
		{"at once with 50 workers", func(t *testing.T) { c.atOnce(t, fifty, ", Cluster API with 50 workers") }},
		{"outage", c.outages},
		{"full zone", c.fullZones},
	} {
		t.Run(part.name, func(t *testing.T) {
			known := len(c.rows)

			part.run(t)

			for _, r := range c.rows[known:] {
				t.Log(r)
			}
		})
	}

	c.print(t)
}

// start runs both peers until the test ends, ours first, and lets each fill its caches.
func (c *comparison) start(t *testing.T, workers int) []*peer {
	t.Helper()
	addLargeZone(t)

	peers := []*peer{newDriverPeer(t), newClusterAPIPeer(t, workers)}
	c.names = nil

	for _, p := range peers {
		c.names = append(c.names, p.name)
		p.live(t, p.witness(t), p.next(1)...)
	}

	return peers
}

// add adds a row with the medians and their ratio. A peer that was not measured has no values.
func (c *comparison) add(what string, q quantity, ours, theirs []float64) {
	ratio := ""
	if len(ours) > 0 && len(theirs) > 0 && median(ours) > 0 {
		ratio = fmt.Sprintf("%.2g", median(theirs)/median(ours))
	}

	c.rows = append(c.rows, row(what, q.of(ours), q.of(theirs), ratio))
}

// addLives adds the rows for the lives of machines.
func (c *comparison) addLives(how string, ours, theirs lives) {
	for i, own := range ours.measured() {
		c.add(own.what+", "+how, own.in, own.values, theirs.measured()[i].values)
	}
}

func (c *comparison) print(t *testing.T) {
	t.Helper()
	require.NoError(t, printTable(t.Context(), os.Stdout, row(slices.Concat([]string{"measurement"}, c.names, []string{"ratio"})...), c.rows))
}
