// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

func TestMissing_Expiry(t *testing.T) {
	t.Parallel()

	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := &MachinePlugin{records: records.NewStore[machineRecord](clock, records.Retention)}
	setMissing := func(r *machineRecord) { r.missing = true }

	p.remember(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, setMissing)
	p.remember(&v1alpha1.Machine{}, setMissing)
	p.remember(nil, setMissing)
	require.Equal(t, 1, countMissing(t, p))

	clock.SetTime(clock.Now().Add(2 * 10 * time.Minute))
	require.Equal(t, 1, countMissing(t, p), "the next call comes within ten minutes, and takes its time")

	clock.SetTime(clock.Now().Add(10 * time.Minute))
	require.Zero(t, countMissing(t, p), "no call comes any more")
}

func countMissing(t *testing.T, p *MachinePlugin) int {
	t.Helper()

	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(missing{p.records}))

	families, err := registry.Gather()
	require.NoError(t, err)

	return int(families[0].GetMetric()[0].GetGauge().GetValue())
}
