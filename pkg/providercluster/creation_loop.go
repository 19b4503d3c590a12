package providercluster

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// enterLoop adds a machine to the creation loop of its provider namespace, or keeps it there. The loop
// has the machines between creation and scheduling. It returns false if the loop is full.
func (m *Machines) enterLoop(machine types.UID, namespace string) bool {
	var (
		now     = m.options.Clock.Now()
		inLoop  = func(r *record) bool { return r.polledIn == namespace && now.Sub(r.polledAt) <= loopRetention }
		entered bool
		count   int
	)

	m.records.Use(machine, func(r *record) {
		entered = !inLoop(r)
		r.polledIn = namespace
		r.polledAt = now
	})

	m.records.Each(func(r *record) {
		if inLoop(r) {
			count++
		}
	})

	if entered && count > maxInLoop {
		m.leaveLoop(machine)

		return false
	}

	return true
}

// leaveLoop removes a machine from its loop.
func (m *Machines) leaveLoop(machine types.UID) {
	m.records.Peek(machine, func(r *record) { r.polledIn = "" })
}
