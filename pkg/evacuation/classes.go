package evacuation

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// siteName names machines that are watched together.
type siteName struct {
	place    string
	identity spi.Identity
}

// classes are the MachineClasses that requests were made for, and where their credentials lead to.
type classes struct {
	clock  clock.PassiveClock
	memory time.Duration

	mu    sync.Mutex
	known map[string]*classNote
	notes int
}

type classNote struct {
	kubeconfig []byte
	identity   spi.Identity
	site       siteName
	// number grows with each kubeconfig that a class comes with.
	number int
	// last is when the class last came.
	last time.Time
}

func newClasses(c clock.PassiveClock, memory time.Duration) *classes {
	return &classes{clock: c, memory: memory, known: map[string]*classNote{}}
}

// note returns whether the class is new, or has changed.
func (c *classes) note(name string, kubeconfig []byte, id spi.Identity) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := c.clock.Now()

	known, ok := c.known[name]
	if ok && known.identity == id && bytes.Equal(known.kubeconfig, kubeconfig) {
		known.last = now

		return false
	}

	c.notes++

	next := &classNote{kubeconfig: bytes.Clone(kubeconfig), identity: id, number: c.notes, last: now}
	if ok {
		next.site = known.site
	}

	c.known[name] = next

	return true
}

// locate takes note of where a class's credentials lead to, and returns where they led to before.
func (c *classes) locate(name string, site siteName) siteName {
	c.mu.Lock()
	defer c.mu.Unlock()

	known, ok := c.known[name]
	if !ok {
		return site
	}

	before := known.site
	known.site = site

	return before
}

// kubeconfig returns the one to watch a site with: the one that appeared last, since classes come with a rotated one at different
// times. It returns nil for a site that no class leads to any more.
func (c *classes) kubeconfig(site siteName) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()

	var newest *classNote

	for name, known := range c.known {
		switch {
		case c.clock.Since(known.last) > c.memory:
			delete(c.known, name)
		case known.site == site && (newest == nil || known.number > newest.number):
			newest = known
		}
	}

	if newest == nil {
		return nil
	}

	return newest.kubeconfig
}
