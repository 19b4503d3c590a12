package providercluster

import (
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
)

// record is what is remembered about a VirtualMachine.
type record struct {
	// related is the related evidence of a machine at a step, in addition to what each call reads: it
	// takes several requests. memory is its size in bytes.
	related evidence
	step    step
	memory  int64
	// reported is the reason of the last reported failure. A new one is reported immediately.
	reported string
	// polledIn is the provider namespace of a machine in the creation loop, and polledAt the time of
	// its last call there. The number of machines in a loop is bounded.
	polledIn string
	polledAt time.Time
	// sightings are those of the VirtualMachine as an orphan. It is deleted only after a grace period.
	sightings map[caller.ID]sightings
}

func (r *record) dropRelated() {
	r.related = evidence{}
	r.memory = 0
}
