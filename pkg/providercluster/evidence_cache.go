package providercluster

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

const (
	// entryRetention is how long the entry of a machine is kept after its last use.
	entryRetention = 10 * time.Minute
	// maxEntryMemory and maxCacheMemory bound the memory of one entry and of all entries, in bytes. The
	// evidence of a machine with its pod, its disks and fifty events has 200 KiB. Evidence that
	// exceeds the limit is not used.
	maxEntryMemory, maxCacheMemory = 512 << 10, 16 << 20
	// maxEntries bounds the number of entries. A server may return a machine with another UID each
	// time.
	maxEntries = 10_000
)

// evidenceCache caches, for each slow machine, the related evidence and the last reported failure.
// Losing it, as on a restart, is harmless.
type evidenceCache struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[types.UID]*cacheEntry
	// memory is that of all entries, in bytes.
	memory int64
}

type cacheEntry struct {
	// related is the evidence that was read at a step, and readAt when it was last read.
	related relatedEvidence
	memory  int64
	step    step
	readAt  time.Time
	// reported is the reason of the last reported failure.
	reported string
	lastUsed time.Time
}

func newEvidenceCache(c clock.PassiveClock) *evidenceCache {
	return &evidenceCache{clock: c, entries: map[types.UID]*cacheEntry{}}
}

// entry returns the entry of a machine, and removes unused ones. The caller holds the lock.
func (c *evidenceCache) entry(machine types.UID) *cacheEntry {
	now := c.clock.Now()
	for other, entry := range c.entries {
		if now.Sub(entry.lastUsed) > entryRetention {
			c.memory -= entry.memory
			delete(c.entries, other)
		}
	}

	if c.entries[machine] == nil {
		c.entries[machine] = &cacheEntry{}
	}

	c.entries[machine].lastUsed = now

	return c.entries[machine]
}

// due reports whether the evidence of a machine has to be read again, and records that it is.
func (c *evidenceCache) due(machine types.UID, interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry := c.entry(machine)
	now := c.clock.Now()
	if now.Sub(entry.readAt) < interval {
		return false
	}

	entry.readAt = now

	return true
}

func (c *evidenceCache) store(machine types.UID, at step, related relatedEvidence) {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry := c.entry(machine)
	memory := pages.MemoryOf(related)
	if memory > maxEntryMemory {
		related = relatedEvidence{}
		memory = 0
	}

	c.memory += memory - entry.memory
	entry.related = related
	entry.memory = memory
	entry.step = at

	if c.memory > maxCacheMemory || len(c.entries) > maxEntries {
		c.clear()
	}
}

// clear removes all entries. The evidence of each slow machine is then read again.
func (c *evidenceCache) clear() {
	c.memory = 0
	c.entries = map[types.UID]*cacheEntry{}
}

// get returns the evidence that was read at this step, and when it was read.
func (c *evidenceCache) get(machine types.UID, at step) (relatedEvidence, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry := c.entry(machine)
	if entry.step != at {
		return relatedEvidence{}, time.Time{}
	}

	return entry.related, entry.readAt
}

func (c *evidenceCache) setReported(machine types.UID, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.entry(machine).reported = reason
}

func (c *evidenceCache) reported(machine types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.entry(machine).reported
}
