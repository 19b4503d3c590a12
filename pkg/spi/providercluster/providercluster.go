// Package providercluster implements the PluginSPI on a provider cluster: it ensures, observes,
// awaits and deletes the objects of machines. cmd/machine-controller and cmd/mcm-kubevirt pass it
// to pkg/kubevirt. It must not know machine-controller-manager and its codes.
//
// It reads objects live, and waits with watches of single objects, since a component that deletes
// machines must not rely on a cache.
package providercluster

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the provider's dependencies and limits. All are required.
type Options struct {
	// Clients creates clients from kubeconfigs.
	Clients *providerapi.Cache
	// Images manages the golden images.
	Images *images.Manager
	// Clock is the clock for grace periods.
	Clock clock.Clock
	// InitializeWait is how long InitializeMachine waits for the machine to be scheduled.
	InitializeWait time.Duration
	// UnschedulableGrace is how long a lack of capacity must last before it is reported. A failure
	// that the provider cluster retries must last twice as long.
	UnschedulableGrace time.Duration
	// OrphanGracePeriod is the minimum time that a machine must have had no Machine before it is
	// deleted.
	OrphanGracePeriod time.Duration
	// OrphanMemory is the maximum interval between two sightings of an orphan. It must exceed the
	// period of the orphan collection.
	OrphanMemory time.Duration
	// MaxDeleteWait bounds how long DeleteMachine waits for any guest, including DeleteSlack.
	// machine-controller-manager then calls again.
	MaxDeleteWait time.Duration
	// MaxWaiting bounds the calls of InitializeMachine that wait at the same time. The others read the
	// machine once.
	MaxWaiting int
	// NeedAddress is set if a machine counts as scheduled only when it has an address. Without a
	// target cluster, the address is not requested again later.
	NeedAddress bool
}

// Provider implements spi.PluginSPI and spi.Explainer.
type Provider struct {
	options  Options
	waiters  chan struct{}
	loop     *creationLoop
	orphans  *orphanTracker
	evidence *evidenceCache
}

var (
	_ spi.PluginSPI = (*Provider)(nil)
	_ spi.Explainer = (*Provider)(nil)
)

// New returns a provider.
func New(options Options) *Provider {
	return &Provider{
		options:  options,
		waiters:  make(chan struct{}, options.MaxWaiting),
		loop:     newCreationLoop(options.Clock),
		orphans:  newOrphanTracker(options.Clock, options.OrphanMemory),
		evidence: newEvidenceCache(options.Clock),
	}
}

func newMachine(name string) *spi.Machine {
	return &spi.Machine{Name: name, ProviderID: providerid.Format(name)}
}
