// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

// machineRecord is what the plugin remembers about a Machine.
type machineRecord struct {
	// event is the last Event of the Machine. The next one is recorded only if it differs.
	event event
	// missing is set if the last call failed with spi.ErrAddressChanged: an operator has to act on the
	// machine. It expires with the calls: the Machine is gone, or another process is the leader.
	missing bool
	// progress is the phase of the machine's creation, for the metrics of phases.
	progress records.Progress
}

// remember calls a function with the record of a Machine. It omits Machines without a UID:
// machine-controller-manager sends them for orphans, which have no Machine.
func (p *MachinePlugin) remember(machine *v1alpha1.Machine, use func(*machineRecord)) {
	if machine != nil && machine.UID != "" {
		p.records.Use(records.Key(machine.UID), use)
	}
}

var missingDesc = prometheus.NewDesc("mcm_kubevirt_machines_missing_at_address",
	"Machines that are not found at their present address, but were created at another one; the driver does not treat them as deleted.", nil, nil)

// missing is the collector of the machines that are missing at their address.
type missing struct {
	records *records.Store[machineRecord]
}

var _ prometheus.Collector = missing{}

// Describe implements prometheus.Collector.
func (m missing) Describe(to chan<- *prometheus.Desc) { to <- missingDesc }

// Collect implements prometheus.Collector.
func (m missing) Collect(to chan<- prometheus.Metric) {
	count := 0

	m.records.Each(func(r *machineRecord) {
		if r.missing {
			count++
		}
	})

	to <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(count))
}
