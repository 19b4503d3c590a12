package evacuation

import (
	"bytes"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// siteName is the key of a site: the machines that are watched together.
type siteName struct {
	place    string
	identity spi.Identity
}

// classes tracks the MachineClasses that requests were made for, and
// the sites that their credentials point to.
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
	// number increases with each new kubeconfig of any class.
	number int
	// last is the time of the last request for the class.
	last time.Time
}

func newClasses(c clock.PassiveClock, memory time.Duration) *classes {
	return &classes{clock: c, memory: memory, known: map[string]*classNote{}}
}

// note records a request for a class, and reports whether the class is new or has changed.
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

// locate records the site that a class's credentials point to, and returns the previous one.
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

// kubeconfig returns the newest kubeconfig for a site, since the classes of a site receive a
// rotated one at different times. It returns nil if no class points to the site any more.
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
