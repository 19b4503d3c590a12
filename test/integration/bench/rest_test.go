// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"
)

// restingMachines are the numbers of machines with which peers rest.
var restingMachines = [...]int{ten, hundred, thousand}

// TestPeersAtRest compares what the peers of TestPeers use while nothing changes, with more and more machines. They rest one
// after the other, because each would also keep the Nodes of the other, and two thousand guests leave the controllers too
// little processor time. One peer can be measured alone, such as with -run '^TestPeersAtRest$/^driver$'.
func TestPeersAtRest(t *testing.T) {
	logByDefault(t)
	addLargeZone(t)

	c := &comparison{names: make([]string, len(peerStarts))}

	var rests [2][len(restingMachines)]rest

	for i, peer := range peerStarts {
		t.Run(peer.name, func(t *testing.T) {
			p := peer.start(t)
			c.names[i] = p.name

			known := p.seenRunning(t)

			var machines []string

			for step, many := range restingMachines {
				more := p.next(many - len(machines))
				p.addAll(t, more, largeZone)
				known.await(t, more)

				machines = append(machines, more...)
				rests[i][step] = p.rest(t, eachPeriod)
				t.Logf("%d machines: %+v", many, rests[i][step])
			}

			p.removeAll(t, machines)
		})
	}

	for step, many := range restingMachines {
		c.addRests(many, rests[0][step], rests[1][step])
	}

	c.print(t)
}

// eachPeriod is the number of minutes of a rest that includes what peers do periodically: by default, Cluster API works on all
// machines each 9 to 11 minutes, and its provider each 54 to 66 s (--sync-period); the driver lists them each 10 minutes.
const eachPeriod = 11

// addRests adds the rows of a number of machines. Work that is not done each minute counts in means, unlike in medians.
func (c *comparison) addRests(machines int, ours, theirs rest) {
	how := fmt.Sprintf(", %d machines at rest", machines)

	c.add("memory of both controllers"+how, size, ours.memory, theirs.memory)
	c.add("processor time a minute, mean"+how, processor, mean(ours.processor), mean(theirs.processor))
	c.add("requests to the provider cluster a minute, mean"+how, rate, mean(ours.requests), mean(theirs.requests))
}

// rest is what a peer uses in each minute while nothing changes.
type rest struct {
	memory, processor, requests []float64
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
		r.memory = append(r.memory, p.memory(t))
	}

	return r
}

// memory returns the memory of both controllers.
func (p *peer) memory(t *testing.T) float64 {
	t.Helper()

	sum := 0.0
	for _, one := range p.processes {
		sum += memoryOf(t, one).Used
	}

	return sum
}
