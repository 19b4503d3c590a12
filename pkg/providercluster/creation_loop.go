// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

const (
	// maxInLoop bounds the machines of one provider namespace that machine-controller-manager polls
	// every few seconds. Each namespace has its own loop, so that one shoot does not fill the loop of
	// another.
	maxInLoop = 100
	// loopRetention is how long a machine stays in its loop after its last call. It is shorter than that
	// of records, since a machine that is no longer polled must not keep others out: calls end if the
	// machine is deleted, or if another process becomes the leader.
	loopRetention = time.Minute
)

// creationLoop has the machines of one provider namespace between creation and scheduling, by name,
// with the time of their last call.
type creationLoop map[string]time.Time

// enterLoop adds a machine to the creation loop of its provider namespace, or keeps it there. It
// returns false if the loop is full.
func (m *Machines) enterLoop(c *providerapi.Clients, machine string) (entered bool) {
	now := m.options.Clock.Now()

	m.loops.Use(loopKey(c), func(loop *creationLoop) {
		if *loop == nil {
			*loop = creationLoop{}
		}

		for name, polled := range *loop {
			if now.Sub(polled) > loopRetention {
				delete(*loop, name)
			}
		}

		_, entered = (*loop)[machine]
		entered = entered || len(*loop) < maxInLoop

		if entered {
			(*loop)[machine] = now
		}
	})

	return entered
}

// leaveLoop removes a machine from its loop.
func (m *Machines) leaveLoop(c *providerapi.Clients, machine string) {
	m.loops.Peek(loopKey(c), func(loop *creationLoop) { delete(*loop, machine) })
}

func loopKey(c *providerapi.Clients) records.Key { return records.Key(c.Server + "/" + c.Namespace) }
