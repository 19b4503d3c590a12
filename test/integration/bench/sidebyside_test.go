// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// both measures each peer, ours first.
func (c *comparison) both() []*peer { return []*peer{c.ours, c.theirs} }

// oneAtATime compares machines that have the controllers to themselves. The peers alternate, since the host's speed varies.
func (c *comparison) oneAtATime(t *testing.T) {
	const rounds = 10

	var took [2]lives

	for i, p := range c.both() {
		p.live(t, p.witness(t), p.named("first", 1)...) // It fills caches.
		took[i] = lives{}
	}

	witnesses := []witness{c.ours.witness(t), c.theirs.witness(t)}

	for round := range rounds {
		for i, p := range c.both() {
			took[i] = took[i].and(p.live(t, witnesses[i], p.named("one", rounds)[round]))
		}
	}

	c.addLives("one at a time", took[0], took[1])
}

// atOnce compares fifty machines applied at once, which keep all cores busy.
func (c *comparison) atOnce(t *testing.T) {
	const rounds = 2

	var took [2]lives

	witnesses := []witness{c.ours.witness(t), c.theirs.witness(t)}

	for round := range rounds {
		for i, p := range c.both() {
			took[i] = took[i].and(p.live(t, witnesses[i], p.named(fmt.Sprintf("many-%d", round), fifty)...))
		}
	}

	c.addLives(fmt.Sprintf("%d x %d at once", rounds, fifty), took[0], took[1])
}

// outages compares how soon a machine that was applied during an outage is created afterwards.
func (c *comparison) outages(t *testing.T) {
	const rounds = 2

	var took [2][]float64

	for round := range rounds {
		for i, p := range c.both() {
			took[i] = append(took[i], p.outage(t, p.named("outage", rounds)[round]))
		}
	}

	c.add("provider cluster back after a minute in which connections were reset, to the VirtualMachine applied meanwhile", duration, took[0], took[1])
}

func (p *peer) outage(t *testing.T, machine string) float64 {
	t.Helper()

	vms := seenVirtualMachines(t, p.Shoot)
	reset := harness.FaultNamed(t, "reset before")

	p.line.Down.Store(&reset)
	p.addAll(t, []string{machine}, largeZone)
	<-time.NewTimer(time.Minute).C
	p.line.Down.Store(nil)

	took := vms.since(t, map[string]time.Time{machine: time.Now()})

	p.removeAll(t, []string{machine})

	return took[0].Seconds()
}

// fullZones compares how soon the machine shows that no node has room for it.
func (c *comparison) fullZones(t *testing.T) {
	const rounds = 3

	var took [2][]float64

	for round := range rounds {
		for i, p := range c.both() {
			machine := p.named("full", rounds)[round]
			refused := seenInstances(t, p.Shoot, unschedulable)
			explained := p.seenExplained(t)

			p.addAll(t, []string{machine}, emptyZone)

			at := refused.await(t, []string{machine})[machine]
			took[i] = append(took[i], explained.since(t, map[string]time.Time{machine: at})[0].Seconds())

			p.removeAll(t, []string{machine})
		}
	}

	c.add("pod unschedulable to the cause shown by the machine (ours waits 30 s, so that the autoscaler does not leave a pool too early)", duration, took[0], took[1])
}

// sizes compares what the controllers use at rest.
func (c *comparison) sizes(t *testing.T) {
	numbers := []int{ten, hundred, thousand}

	var rests [2][]rest

	for i, p := range c.both() {
		rests[i] = p.grow(t, numbers)
	}

	for i, many := range numbers {
		ours, theirs := rests[0][i], rests[1][i]

		c.add(fmt.Sprintf("memory of both controllers, %d machines at rest", many), size, []float64{ours.memory}, []float64{theirs.memory})
		c.add(fmt.Sprintf("processor time a minute, %d machines at rest", many), duration, ours.processor, theirs.processor)
		c.add(fmt.Sprintf("requests to the provider cluster a minute, %d machines at rest", many), requests, ours.requests, theirs.requests)
	}
}

// rest is what a peer uses while nothing changes.
type rest struct {
	memory              float64
	processor, requests []float64
}

// grow adds machines up to each number and measures the controllers for some minutes.
func (p *peer) grow(t *testing.T, numbers []int) []rest {
	t.Helper()

	const minutes = 2

	var (
		all   = p.named("size", numbers[len(numbers)-1])
		known = p.seenRunning(t)
		there int
		rests []rest
	)

	for _, many := range numbers {
		p.addAll(t, all[there:many], largeZone)
		known.await(t, all[:many])

		there = many
		rests = append(rests, p.rest(t, minutes))
		t.Logf("%s, %d machines: %+v", p.name, many, rests[len(rests)-1])
	}

	p.removeAll(t, all)

	return rests
}

// rest measures a peer minute by minute, after a first one in which it comes to rest.
func (p *peer) rest(t *testing.T, minutes int) rest {
	t.Helper()

	r := rest{}

	<-time.NewTimer(time.Minute).C

	for range minutes {
		before := p.used(t)

		<-time.NewTimer(time.Minute).C

		spent := p.used(t).minus(before)
		r.processor = append(r.processor, spent.processor.Seconds())
		r.requests = append(r.requests, float64(spent.requests))
	}

	for _, one := range p.processes {
		r.memory += memoryOf(t, one).RSS
	}

	return r
}
