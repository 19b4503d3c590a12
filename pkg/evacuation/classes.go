package evacuation

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// classes tracks the MachineClasses of the driver's requests, and the targets that their
// credentials point to.
type classes struct {
	clock     clock.PassiveClock
	retention time.Duration

	mu           sync.Mutex
	entries      map[string]*classEntry
	lastRevision int
}

type classEntry struct {
	kubeconfig []byte
	identity   spi.Identity
	target     targetKey
	// revision increases with each new kubeconfig of any class.
	revision int
	// lastRequest is the time of the last request for the class.
	lastRequest time.Time
}

func newClasses(c clock.PassiveClock, retention time.Duration) *classes {
	return &classes{clock: c, retention: retention, entries: map[string]*classEntry{}}
}

// update records a request for a class, and reports whether the class is new or has changed.
func (c *classes) update(name string, kubeconfig []byte, id spi.Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := c.clock.Now()

	current, ok := c.entries[name]
	if ok && current.identity == id && bytes.Equal(current.kubeconfig, kubeconfig) {
		current.lastRequest = now

		return false
	}

	c.lastRevision++

	entry := &classEntry{kubeconfig: bytes.Clone(kubeconfig), identity: id, revision: c.lastRevision, lastRequest: now}
	if ok {
		entry.target = current.target
	}

	c.entries[name] = entry

	return true
}

// setTarget records the target that a class's credentials point to, and returns the previous one.
func (c *classes) setTarget(name string, target targetKey) targetKey {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry, ok := c.entries[name]
	if !ok {
		return target
	}

	previous := entry.target
	entry.target = target

	return previous
}

// kubeconfig returns the newest kubeconfig for a target, since the classes of a target receive a
// rotated one at different times. It returns nil if no class points to the target any more.
func (c *classes) kubeconfig(target targetKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()

	var newest *classEntry

	for name, entry := range c.entries {
		switch {
		case c.clock.Since(entry.lastRequest) > c.retention:
			delete(c.entries, name)
		case entry.target == target && (newest == nil || entry.revision > newest.revision):
			newest = entry
		}
	}

	if newest == nil {
		return nil
	}

	return newest.kubeconfig
}
