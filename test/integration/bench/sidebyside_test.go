// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// inTurns calls measure for each peer in each round. The one that ends a round also begins the next, since the host's speed
// varies.
func inTurns(rounds int, measure func(peer int)) {
	for round := range rounds {
		first := round % 2
		measure(first)
		measure(1 - first)
	}
}

// oneAtATime compares machines that have the controllers to themselves.
func (c *comparison) oneAtATime(t *testing.T) {
	const rounds = 20

	var took [2]lives

	peers := c.start(t, clusterAPIWorkers)
	witnesses := []witness{peers[0].witness(t), peers[1].witness(t)}

	inTurns(rounds, func(i int) {
		took[i] = took[i].and(peers[i].live(t, witnesses[i], peers[i].next(1)...))
	})
	c.addLives("one at a time", took[0], took[1])
}

// joining compares how soon machines are shown as running whose guests take as long as real ones to join, and how much of it
// passes after the Node is ready. The guests' Nodes have a provider ID from the start.
func (c *comparison) joining(t *testing.T) {
	const (
		rounds   = 10
		takes    = time.Minute
		distance = 3 * time.Second // A machine does not wait for the controllers to work on another.
	)

	peers := c.start(t, clusterAPIWorkers)
	ready := seenReady(t, peers[0].Shoot)
	known := []*seen{peers[0].seenRunning(t), peers[1].seenRunning(t)}
	began := []map[string]time.Time{{}, {}}

	for _, p := range peers {
		p.Annotate(t, behaviour.JoinLatencyAnnotation, takes.String())
	}

	inTurns(rounds, func(i int) {
		maps.Copy(began[i], peers[i].addAll(t, peers[i].next(1), largeZone))
		<-time.NewTimer(distance).C
	})

	var all, after [2][]float64

	for i, p := range peers {
		machines := slices.Collect(maps.Keys(began[i]))
		all[i] = secondsOf(known[i].since(t, began[i]))
		after[i] = secondsOf(known[i].since(t, ready.await(t, machines)))

		p.removeAll(t, machines)
	}

	what := fmt.Sprintf("machine applied to machine shown as running, of a guest that takes %.0f s to join", takes.Seconds())
	c.add(what, duration, all[0], all[1])
	c.add(what+": of that, after its Node is ready", duration, after[0], after[1])
}

// atOnce compares fifty machines applied at once, which keep all cores busy.
func (c *comparison) atOnce(t *testing.T, workers int, how string) {
	t.Helper()

	const rounds = 3

	var took [2]lives

	peers := c.start(t, workers)
	witnesses := []witness{peers[0].witness(t), peers[1].witness(t)}

	inTurns(rounds, func(i int) {
		took[i] = took[i].and(peers[i].live(t, witnesses[i], peers[i].next(fifty)...))
	})
	c.addLives(fmt.Sprintf("%d x %d at once%s", rounds, fifty, how), took[0], took[1])
}

// outages compares how soon a machine that was applied during an outage is created afterwards. Both peers retry in cycles, the
// longest of which takes 18 s: the outages end at ten points of it. An outage is that of both peers.
func (c *comparison) outages(t *testing.T) {
	const (
		rounds   = 10
		shortest = time.Minute
		step     = 1900 * time.Millisecond
	)

	var took [2][]float64

	peers := c.start(t, clusterAPIWorkers)
	vms := []*seen{seenVirtualMachines(t, peers[0].Shoot), seenVirtualMachines(t, peers[1].Shoot)}
	reset := harness.FaultNamed(t, "reset before")

	for round := range rounds {
		var machines [2][]string

		for i, p := range peers {
			machines[i] = p.next(1)

			p.line.Down.Store(&reset)
			p.addAll(t, machines[i], largeZone)
		}

		<-time.NewTimer(shortest + time.Duration(round)*step).C

		for _, p := range peers {
			p.line.Down.Store(nil)
		}

		back := time.Now()

		for i := range peers {
			took[i] = append(took[i], secondsOf(vms[i].since(t, map[string]time.Time{machines[i][0]: back}))...)
		}

		for i, p := range peers {
			p.removeAll(t, machines[i])
		}
	}

	c.add(fmt.Sprintf("provider cluster back after %.0f to %.0f s in which connections were reset, to the VirtualMachine applied meanwhile",
		shortest.Seconds(), (shortest+(rounds-1)*step).Seconds()), duration, took[0], took[1])
}

// fullZones compares how soon the machine shows that no node has room for it.
func (c *comparison) fullZones(t *testing.T) {
	const rounds = 5

	var took [2][]float64

	peers := c.start(t, clusterAPIWorkers)

	inTurns(rounds, func(i int) {
		p := peers[i]
		machine := p.next(1)
		refused := seenInstances(t, p.Shoot, unschedulable)
		explained := p.seenExplained(t)

		p.addAll(t, machine, emptyZone)

		took[i] = append(took[i], secondsOf(explained.since(t, refused.await(t, machine)))...)

		p.removeAll(t, machine)
	})
	c.add("pod unschedulable to the cause shown by the Machine, or by Cluster API's KubevirtMachine (ours waits 30 s, so that the autoscaler does not leave a pool too early)",
		duration, took[0], took[1])
}
