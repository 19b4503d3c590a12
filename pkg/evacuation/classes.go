// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxClasses bounds the tracked MachineClasses of a control plane.
const maxClasses = 2000

// classes tracks the MachineClasses of the driver's requests, and the targets that their
// credentials point to. Classes without requests expire.
type classes struct {
	retention time.Duration

	mu sync.Mutex
	// entries has a *classEntry for the name of each class.
	entries      *cache.LRUExpireCache
	lastRevision int
}

type classEntry struct {
	kubeconfig []byte
	identity   spi.Identity
	target     targetKey
	// revision increases with each new kubeconfig of any class.
	revision int
}

func newClasses(c clock.PassiveClock, retention time.Duration) *classes {
	return &classes{retention: retention, entries: cache.NewLRUExpireCacheWithClock(maxClasses, c)}
}

// entry returns the entry of a class, or nil.
func (c *classes) entry(name any) *classEntry {
	found, _ := c.entries.Get(name)
	entry, _ := found.(*classEntry)

	return entry
}

// update records a request for a class, and reports whether the class is new or has changed.
func (c *classes) update(name string, kubeconfig []byte, id spi.Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry := c.entry(name)
	if entry == nil {
		entry = &classEntry{}
	}

	changed := entry.identity != id || !bytes.Equal(entry.kubeconfig, kubeconfig)
	if changed {
		c.lastRevision++
		entry.kubeconfig = bytes.Clone(kubeconfig)
		entry.identity = id
		entry.revision = c.lastRevision
	}

	c.entries.Add(name, entry, c.retention)

	return changed
}

// setTarget records the target that a class's credentials point to, and returns the previous one.
func (c *classes) setTarget(name string, target targetKey) targetKey {
	c.mu.Lock()
	defer c.mu.Unlock()

	entry := c.entry(name)
	if entry == nil {
		return target
	}

	previous := entry.target
	entry.target = target

	return previous
}

// kubeconfig returns the newest kubeconfig for a target, because rotation reaches the classes of a
// target at different times. It returns nil if no class points to the target anymore.
func (c *classes) kubeconfig(target targetKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()

	newest := &classEntry{}

	for _, name := range c.entries.Keys() {
		if entry := c.entry(name); entry != nil && entry.target == target && entry.revision > newest.revision {
			newest = entry
		}
	}

	return newest.kubeconfig
}
