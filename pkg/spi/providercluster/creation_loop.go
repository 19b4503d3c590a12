package providercluster

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxInLoop bounds how many machines machine-controller-manager asks about every few seconds.
	maxInLoop = 100
	// forgetAfter drops machines that are no longer asked about: deleted ones, and those of a peer that took over.
	forgetAfter = time.Minute
)

// creationLoop remembers which machines are between creation and scheduling. Losing it, on a restart, is harmless.
type creationLoop struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	seen map[string]time.Time
}

func newCreationLoop(c clock.PassiveClock) *creationLoop {
	return &creationLoop{clock: c, seen: map[string]time.Time{}}
}

// enter keeps a machine in the loop, and returns false if it is not in it and the loop is full.
func (l *creationLoop) enter(machine string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.clock.Now()
	for other, at := range l.seen {
		if now.Sub(at) > forgetAfter {
			delete(l.seen, other)
		}
	}

	if _, in := l.seen[machine]; !in && len(l.seen) >= maxInLoop {
		return false
	}

	l.seen[machine] = now

	return true
}

// leave takes a machine out of the loop.
func (l *creationLoop) leave(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	delete(l.seen, machine)
}
