// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// benchOutage measures how soon the first machine is created after an outage of the
// provider cluster, for both kinds of outages: connections are reset, or requests are
// accepted but never answered.
func benchOutage(t *testing.T, b *bench) {
	for _, away := range []struct{ fault, how string }{
		{"reset before", "connections were reset"},
		{"timeout before", "requests were accepted and never answered"},
	} {
		took := firstAfterOutage(t, harness.FaultNamed(t, away.fault))
		b.judgeTime(fmt.Sprintf("provider cluster back after a minute in which %s to the first VirtualMachine", away.how), took, 15*time.Second)
	}
}

// firstAfterOutage makes the provider cluster unavailable for a minute and requests a machine
// meanwhile. The cluster comes back just after a failed request of the driver, the worst moment if
// requests are never answered.
func firstAfterOutage(t *testing.T, f harness.Fault) time.Duration {
	t.Helper()

	const atLeast = time.Minute

	s := harness.NewShoot(t)
	l := s.ProxyProvider(t)
	s.ApplyCredentials(t)
	addClass(t, s, s.Spec("zone-x", harness.EphemeralRoot))
	s.RunControllers(t, "--machine-creation-timeout=20m")

	vms := seenVirtualMachines(t, s)
	over := time.NewTimer(atLeast)

	l.Down.Store(&f)
	createMachines(t, s, 0, 1)
	<-over.C

	before := l.Asked("get virtualmachines")
	harness.Eventually(t, "a request of the driver has failed", func(context.Context) (bool, error) { return l.Asked("get virtualmachines") > before, nil })

	back := time.Now()

	l.Down.Store(nil)

	took := vms.last(t, 1).Sub(back)
	endMachines(t, s)

	return took
}
