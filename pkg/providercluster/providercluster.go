// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providercluster implements the PluginSPI on a provider cluster: it ensures, observes,
// awaits and deletes the objects of machines, and explains machines to an operator.
// internal/driveroptions passes it to pkg/kubevirt. It must not depend on
// machine-controller-manager, nor on its codes.
//
// It reads objects live, and waits with watches of single objects, since a component that deletes
// machines must not rely on a cache.
package providercluster

import (
	"cmp"
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the settings of Machines.
type Options struct {
	// UnschedulableGrace is how long a lack of capacity must last before it is reported. A failure
	// that the provider cluster retries must last twice as long.
	UnschedulableGrace time.Duration
	// OrphanGracePeriod is the minimum time for which a VirtualMachine must be orphaned before it
	// is deleted, and OrphanPeriod is the period of machine-controller-manager's search for
	// orphans.
	OrphanGracePeriod, OrphanPeriod time.Duration
	// Workers is the maximum number of concurrent calls. InitializeMachine waits in at most half of
	// them; the others read the machine once.
	Workers int
	// NeedAddress is set if a machine counts as scheduled only when it has an address. Without a
	// target cluster, the address is not requested again later.
	NeedAddress bool

	// InitializeWait is how long InitializeMachine waits for the machine to be scheduled, while a
	// worker reconciles no other machine; by default 15 s.
	InitializeWait time.Duration
	// MaxDeleteWait bounds how long DeleteMachine waits for any guest; by default five minutes.
	// machine-controller-manager then calls again.
	MaxDeleteWait time.Duration
	// Clock is the clock for grace periods; by default the real one.
	Clock clock.Clock
}

// initializeWait is the default of Options.InitializeWait.
const initializeWait = 15 * time.Second

// Machines implements spi.PluginSPI.
type Machines struct {
	options Options
	clients *providerapi.Cache
	images  *images.Manager
	periods diagnose.GracePeriods
	waiters chan struct{}
	records *records.Store[record]
	// loops are the creation loops of the provider namespaces.
	loops *records.Store[creationLoop]
	// sightingRetention is how long a sighting of an orphan is remembered: until the search after the
	// next one.
	sightingRetention time.Duration
}

var _ spi.PluginSPI = (*Machines)(nil)

// NewMachines returns the machines on all provider clusters.
func NewMachines(clients *providerapi.Cache, manager *images.Manager, options Options) *Machines {
	options.Clock = cmp.Or[clock.Clock](options.Clock, clock.RealClock{})
	options.InitializeWait = cmp.Or(options.InitializeWait, initializeWait)
	options.MaxDeleteWait = cmp.Or(options.MaxDeleteWait, maxDeleteWait)

	sightingRetention := options.OrphanGracePeriod + 2*options.OrphanPeriod

	return &Machines{
		options: options,
		clients: clients,
		images:  manager,
		periods: diagnose.GracePeriodsOf(options.UnschedulableGrace),
		waiters: make(chan struct{}, max(1, options.Workers/2)),
		records: records.NewWeighedStore(options.Clock, max(records.Retention, sightingRetention),
			func(r *record) int64 { return r.memory }),
		loops:             records.NewStore[creationLoop](options.Clock, loopRetention),
		sightingRetention: sightingRetention,
	}
}

func newMachine(name string) *spi.Machine {
	return &spi.Machine{Name: name, ProviderID: providerid.Format(name)}
}
