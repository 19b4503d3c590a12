package providercluster

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// maxInLoop bounds how many machines of one place machine-controller-manager asks about every few seconds.
	maxInLoop = 100
	// maxLoops bounds how many places are remembered: one process may serve many shoots.
	maxLoops = 256
	// forgetAfter drops machines that are no longer asked about: deleted ones, and those of a peer that took over.
	forgetAfter = time.Minute
)

// loopPlace is where machines are made. One shoot's machines do not take the places of another's.
type loopPlace struct {
	server, namespace string
}

func loopPlaceOf(clients *providerapi.Clients) loopPlace {
	return loopPlace{server: clients.Server, namespace: clients.Namespace}
}

// creationLoop remembers which machines are between creation and scheduling. Losing it, on a restart, is harmless.
type creationLoop struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	places map[loopPlace]*placeLoop
}

// placeLoop is the loop of one place.
type placeLoop struct {
	// seen says when a machine was asked about last, and touched when any was.
	seen    map[string]time.Time
	touched time.Time
}

func newCreationLoop(c clock.PassiveClock) *creationLoop {
	return &creationLoop{clock: c, places: map[loopPlace]*placeLoop{}}
}

// enter keeps a machine in the loop of its place, and returns false if it is not in it and that loop is full.
func (l *creationLoop) enter(at loopPlace, machine string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.clock.Now()
	loop := l.of(at, now)

	for other, asked := range loop.seen {
		if now.Sub(asked) > forgetAfter {
			delete(loop.seen, other)
		}
	}

	if _, in := loop.seen[machine]; !in && len(loop.seen) >= maxInLoop {
		return false
	}

	loop.seen[machine] = now

	return true
}

// of returns the loop of a place. If there are too many, the one that was asked about the longest ago is forgotten: its machines enter
// anew. The caller holds the lock.
func (l *creationLoop) of(at loopPlace, now time.Time) *placeLoop {
	if l.places[at] == nil {
		l.makeRoom(now)
		l.places[at] = &placeLoop{seen: map[string]time.Time{}}
	}

	l.places[at].touched = now

	return l.places[at]
}

func (l *creationLoop) makeRoom(now time.Time) {
	var (
		oldest loopPlace
		since  = now
	)

	for at, loop := range l.places {
		if now.Sub(loop.touched) > forgetAfter {
			delete(l.places, at)
		} else if !loop.touched.After(since) {
			oldest, since = at, loop.touched
		}
	}

	if len(l.places) >= maxLoops {
		delete(l.places, oldest)
	}
}

// leave takes a machine out of the loop of its place.
func (l *creationLoop) leave(at loopPlace, machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	loop := l.places[at]
	if loop == nil {
		return
	}

	delete(loop.seen, machine)

	if len(loop.seen) == 0 {
		delete(l.places, at)
	}
}
