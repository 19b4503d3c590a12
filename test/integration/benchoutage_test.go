//go:build bench

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// benchOutage measures how soon the first machine is created after an outage of the
// provider cluster, for both kinds of outages: connections are reset, or requests are
// accepted but never answered.
func benchOutage(t *testing.T, b *bench) {
	for _, away := range []struct{ fault, how string }{
		{"reset before", "connections were reset"},
		{"timeout before", "requests were taken and never answered"},
	} {
		took := firstAfterOutage(t, faultNamed(t, away.fault))
		b.judgeTime(fmt.Sprintf("provider cluster back after a minute in which %s to the first VirtualMachine", away.how), took, 15*time.Second)
	}
}

// firstAfterOutage makes the provider cluster unavailable for a minute and requests a machine
// meanwhile. The cluster comes back just after a failed request of the driver, the worst moment if
// requests are never answered.
func firstAfterOutage(t *testing.T, f fault) time.Duration {
	t.Helper()

	const atLeast = time.Minute

	s := newShoot(t)
	l := s.proxy(t)
	s.applyCredentials(t)
	s.addClass(t, s.spec("zone-x", ephemeralRoot))
	s.runControllers(t, "--machine-creation-timeout=20m")

	vms := s.seenVirtualMachines(t)
	over := time.NewTimer(atLeast)

	l.down.Store(&f)
	s.createMachines(t, 1)
	<-over.C

	before := l.asked("get virtualmachines")
	eventually(t, "the driver asks in vain", func(context.Context) (bool, error) { return l.asked("get virtualmachines") > before, nil })

	back := time.Now()

	l.down.Store(nil)

	took := vms.last(t, 1).Sub(back)
	s.endMachines(t)

	return took
}
