package providercluster

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

const (
	// maxInLoop bounds the machines of one provider namespace that machine-controller-manager polls
	// every few seconds.
	maxInLoop = 100
	// maxLoops bounds the number of loops: one process may serve many shoots.
	maxLoops = 256
	// loopRetention is how long a machine stays in its loop after its last call. Calls end if the
	// machine is deleted, or if another process becomes the leader.
	loopRetention = time.Minute
)

// loopKey identifies a provider namespace. Each has its own loop, so that one shoot does not fill
// the loop of another.
type loopKey struct {
	server, namespace string
}

func loopKeyOf(clients *providerapi.Clients) loopKey {
	return loopKey{server: clients.Server, namespace: clients.Namespace}
}

// creationLoop tracks the machines between creation and scheduling. It may be lost, as on a
// restart.
type creationLoop struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	loops map[loopKey]*namespaceLoop
}

// namespaceLoop is the loop of one provider namespace.
type namespaceLoop struct {
	// machines are the times of the last call for each machine, and lastCall the one for any of them.
	machines map[string]time.Time
	lastCall time.Time
}

func newCreationLoop(c clock.PassiveClock) *creationLoop {
	return &creationLoop{clock: c, loops: map[loopKey]*namespaceLoop{}}
}

// enter adds a machine to its loop, or keeps it there. It returns false if the loop is full.
func (l *creationLoop) enter(key loopKey, machine string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.clock.Now()
	loop := l.get(key, now)

	for other, lastCall := range loop.machines {
		if now.Sub(lastCall) > loopRetention {
			delete(loop.machines, other)
		}
	}

	if _, in := loop.machines[machine]; !in && len(loop.machines) >= maxInLoop {
		return false
	}

	loop.machines[machine] = now

	return true
}

// get returns the loop of a namespace. If there are too many loops, the least recently used one is
// removed; its machines enter it again. The caller holds the lock.
func (l *creationLoop) get(key loopKey, now time.Time) *namespaceLoop {
	if l.loops[key] == nil {
		l.evict(now)
		l.loops[key] = &namespaceLoop{machines: map[string]time.Time{}}
	}

	l.loops[key].lastCall = now

	return l.loops[key]
}

func (l *creationLoop) evict(now time.Time) {
	var (
		oldest loopKey
		since  = now
	)

	for key, loop := range l.loops {
		if now.Sub(loop.lastCall) > loopRetention {
			delete(l.loops, key)
		} else if !loop.lastCall.After(since) {
			oldest, since = key, loop.lastCall
		}
	}

	if len(l.loops) >= maxLoops {
		delete(l.loops, oldest)
	}
}

// leave removes a machine from its loop.
func (l *creationLoop) leave(key loopKey, machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	loop := l.loops[key]
	if loop == nil {
		return
	}

	delete(loop.machines, machine)

	if len(loop.machines) == 0 {
		delete(l.loops, key)
	}
}
