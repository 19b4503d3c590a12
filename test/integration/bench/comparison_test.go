// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// comparison collects the rows of the table that compares two peers.
type comparison struct {
	ours, theirs *peer
	rows         []string
}

// TestPeers compares machine-controller-manager and this driver with Cluster API and its provider for KubeVirt: with the
// same provider cluster, the same VirtualMachines, and the same limits of requests.
func TestPeers(t *testing.T) {
	logByDefault(t)
	addLargeZone(t)

	near := (*harness.Shoot).ProxyProvider
	c := &comparison{ours: newDriverPeer(t, near), theirs: newClusterAPIPeer(t, near)}

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

			for _, r := range c.rows[known:] {
				t.Log(r)
			}
		})
	}

	require.NoError(t, printTable(os.Stdout, row("measurement", c.ours.name, c.theirs.name, "ratio"), c.rows))
}

// add adds a row with the medians and their ratio.
func (c *comparison) add(what string, q quantity, ours, theirs []float64) {
	ratio := ""
	if least := median(ours); least > 0 {
		ratio = fmt.Sprintf("%.2g", median(theirs)/least)
	}

	c.rows = append(c.rows, row(what, q.of(ours), q.of(theirs), ratio))
}

// addLives adds the rows for the lives of machines.
func (c *comparison) addLives(how string, ours, theirs lives) {
	for i, own := range ours.measured() {
		c.add(own.what+", "+how, own.in, own.values, theirs.measured()[i].values)
	}
}
