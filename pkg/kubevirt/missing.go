package kubevirt

import (
	"errors"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// missingRetention is how long a machine counts as missing after its last call.
	// machine-controller-manager retries within 10 minutes.
	missingRetention = 25 * time.Minute
	// maxMissing bounds the number of remembered machines.
	maxMissing = 10_000
)

var missingDesc = prometheus.NewDesc("mcm_kubevirt_machines_missing_at_address",
	"Machines that were created at another address than their present one, where they are not found; the driver does not treat them as deleted.", nil, nil)

// missing counts the machines whose last call failed with spi.ErrAddressChanged. An operator has to
// act on them.
type missing struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	refused map[types.UID]time.Time
}

var _ prometheus.Collector = (*missing)(nil)

func newMissing(c clock.PassiveClock) *missing {
	return &missing{clock: c, refused: map[types.UID]time.Time{}}
}

// record records the result of a call for a machine.
func (m *missing) record(machine *v1alpha1.Machine, err error) {
	if machine == nil || machine.UID == "" {
		return
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	switch {
	case !errors.Is(err, spi.ErrAddressChanged):
		delete(m.refused, machine.UID)
	case len(m.refused) < maxMissing:
		m.refused[machine.UID] = m.clock.Now()
	}
}

// Describe implements prometheus.Collector.
func (m *missing) Describe(to chan<- *prometheus.Desc) { to <- missingDesc }

// Collect implements prometheus.Collector.
func (m *missing) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(m.count()))
}

// count also forgets machines without recent calls: their Machines are gone, or another process is
// the leader.
func (m *missing) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()

	for uid, at := range m.refused {
		if m.clock.Since(at) > missingRetention {
			delete(m.refused, uid)
		}
	}

	return len(m.refused)
}
