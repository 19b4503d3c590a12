// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
)

// RequestCount holds the number of a method's requests to the provider cluster, and their budget.
type RequestCount struct {
	Method                 string
	Reads, Writes, Watches int
	Budget                 [3]int
	// Total is the budget for requests of all kinds.
	Total int
}

// Sum returns the number of requests of all kinds.
func (c *RequestCount) Sum() int { return c.Reads + c.Writes + c.Watches }

// CountRequests runs a machine through its life and counts the requests.
func CountRequests(t *testing.T) []RequestCount {
	t.Helper()

	c := &Counter{}
	s := NewShoot(t)
	d := NewDriver(Settings{Grace: time.Minute, Wrap: c.Wrap, Wait: Settled})

	var counts []RequestCount

	count := func(method string, reads, writes, watches int) {
		counts = append(counts, c.countFor(method, reads, writes, watches))
	}

	first := s.NewMachine("zone-a", ImportedRoot)
	_, err := first.Create(t.Context(), d)
	require.NoError(t, err)
	count("CreateMachine, with a new image", 0, 3, 0)

	_, err = first.Initialize(t.Context(), d)
	require.NoError(t, err)
	count("InitializeMachine, with a new image", 2, 0, 2)

	require.NoError(t, first.Remove(t.Context(), d))
	c.Take()

	begun := len(counts)
	m := s.NewMachine("zone-a", ImportedRoot)
	_, err = m.Status(t.Context(), d)
	require.Equal(t, codes.NotFound, CodeOf(err))
	count("GetMachineStatus, not found", 1, 0, 0)

	_, err = m.Create(t.Context(), d)
	require.NoError(t, err)
	count("CreateMachine", 0, 2, 0)

	_, err = m.Initialize(t.Context(), d)
	require.NoError(t, err)
	count("InitializeMachine, scheduled in its wait", 1, 0, 2)

	_, err = m.Status(t.Context(), d)
	require.NoError(t, err)
	count("GetMachineStatus", 2, 0, 0)

	_, err = m.List(t.Context(), d)
	require.NoError(t, err)
	count("ListMachines", 1, 0, 0)

	require.NoError(t, m.Remove(t.Context(), d))
	// The design's budget is one read and two watches. A second read instead of the
	// second watch costs the same, and distinguishes an instance that is gone from one
	// that was not delivered yet.
	count("DeleteMachine", 2, 2, 1)
	s.RequireNothingLeft(t)

	return append(counts, lifeOf(counts[begun:]))
}

// countFor returns the requests since the last one, with their budget.
func (c *Counter) countFor(method string, reads, writes, watches int) RequestCount {
	r, w, o := c.Take()

	return RequestCount{
		Method:  method,
		Reads:   r,
		Writes:  w,
		Watches: o,
		Budget:  [3]int{reads, writes, watches},
		Total:   reads + writes + watches,
	}
}

// lifeOf adds up the requests and budgets of a machine's methods, each called once. The total of
// all kinds has a separate budget.
func lifeOf(counts []RequestCount) RequestCount {
	const budget = 14

	sum := RequestCount{Method: "a machine's life", Total: budget}

	for _, c := range counts {
		sum.Reads, sum.Writes, sum.Watches = sum.Reads+c.Reads, sum.Writes+c.Writes, sum.Watches+c.Watches

		for i := range sum.Budget {
			sum.Budget[i] += c.Budget[i]
		}
	}

	return sum
}
