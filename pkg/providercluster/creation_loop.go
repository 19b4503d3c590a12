package providercluster

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
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

// creationLoop tracks the machines between creation and scheduling. Losing it, as on a restart, is
// harmless.
type creationLoop struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// namespaces has a *cache.LRUExpireCache with the machines of each provider namespace.
	namespaces *cache.LRUExpireCache
}

func newCreationLoop(c clock.PassiveClock) *creationLoop {
	return &creationLoop{clock: c, namespaces: cache.NewLRUExpireCacheWithClock(maxLoops, c)}
}

// enter adds a machine to its loop, or keeps it there. It returns false if the loop is full.
func (l *creationLoop) enter(key loopKey, machine string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	machines := l.machines(key)
	l.namespaces.Add(key, machines, loopRetention)

	if _, in := machines.Get(machine); !in && len(machines.Keys()) >= maxInLoop {
		return false
	}

	machines.Add(machine, nil, loopRetention)

	return true
}

// leave removes a machine from its loop.
func (l *creationLoop) leave(key loopKey, machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.machines(key).Remove(machine)
}

func (l *creationLoop) machines(key loopKey) *cache.LRUExpireCache {
	if found, ok := l.namespaces.Get(key); ok {
		if machines, ok := found.(*cache.LRUExpireCache); ok {
			return machines
		}
	}

	return cache.NewLRUExpireCacheWithClock(maxInLoop, l.clock)
}
