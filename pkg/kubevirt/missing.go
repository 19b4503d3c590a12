package kubevirt

import (
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/cache"
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
	"Machines that are not found at their present address, but were created at another one; the driver does not treat them as deleted.", nil, nil)

// missing counts the machines whose last call failed with spi.ErrAddressChanged. An operator has to
// act on them. A machine without recent calls is not counted: its Machine is gone, or another process
// is the leader.
type missing struct {
	refused *cache.LRUExpireCache
}

var _ prometheus.Collector = (*missing)(nil)

func newMissing(c clock.PassiveClock) *missing {
	return &missing{refused: cache.NewLRUExpireCacheWithClock(maxMissing, c)}
}

// record records the result of a call for a machine.
func (m *missing) record(machine *v1alpha1.Machine, err error) {
	switch {
	case machine == nil || machine.UID == "":
	case errors.Is(err, spi.ErrAddressChanged):
		m.refused.Add(machine.UID, nil, missingRetention)
	default:
		m.refused.Remove(machine.UID)
	}
}

// Describe implements prometheus.Collector.
func (m *missing) Describe(to chan<- *prometheus.Desc) { to <- missingDesc }

// Collect implements prometheus.Collector.
func (m *missing) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(m.count()))
}

func (m *missing) count() int { return len(m.refused.Keys()) }
