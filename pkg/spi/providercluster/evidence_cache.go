package providercluster

import (
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// entryRetention is how long the entry of a machine is kept after its last use.
	entryRetention = 10 * time.Minute
	// maxEntryBytes and maxCacheBytes bound the size of one entry and of all entries, in JSON. The
	// evidence of a machine with its pod, its disks and fifty events has 150 KiB. Evidence that
	// exceeds the limit is used once, and not cached.
	maxEntryBytes, maxCacheBytes = 512 << 10, 16 << 20
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
	// bytes is the size of all entries.
	bytes int
}

type cacheEntry struct {
	// related is the evidence that was read at a step, and readAt when it was last read.
	related relatedEvidence
	size    int
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
			c.bytes -= entry.size
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

	entry, now := c.entry(machine), c.clock.Now()
	if now.Sub(entry.readAt) < interval {
		return false
	}

	entry.readAt = now

	return true
}

func (c *evidenceCache) store(machine types.UID, at step, related relatedEvidence) {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry, size := c.entry(machine), related.size()
	if size > maxEntryBytes {
		related, size = relatedEvidence{}, 0
	}

	c.bytes += size - entry.size
	entry.related, entry.size, entry.step = related, size, at

	if c.bytes > maxCacheBytes || len(c.entries) > maxEntries {
		c.clear()
	}
}

// clear removes all entries. The evidence of each slow machine is then read again.
func (c *evidenceCache) clear() {
	c.bytes, c.entries = 0, map[types.UID]*cacheEntry{}
}

// size returns the size of the evidence, in bytes of JSON.
func (e *relatedEvidence) size() int {
	text, err := json.Marshal(e)
	if err != nil {
		return maxEntryBytes + 1
	}

	return len(text)
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
