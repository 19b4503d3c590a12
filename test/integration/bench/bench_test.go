// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// Numbers of objects. The machines are small, so that the lab's hosts have room for them.
const (
	ten      = 10
	fifty    = 50
	hundred  = 100
	burst    = 200
	thousand = 1000

	fiveThousand = 5 * thousand
)

// bench collects the rows of the table.
type bench struct {
	rows []benchRow
}

// benchRow is one measurement with its budget and verdict.
type benchRow struct {
	what, measured, budget, verdict string
}

// String returns the row in Markdown.
func (r benchRow) String() string { return row(r.what, r.measured, r.budget, r.verdict) }

// note adds a measurement without a budget.
func (b *bench) note(what, measured string) {
	b.rows = append(b.rows, benchRow{what: what, measured: measured})
}

// judge adds a measurement with a budget. Exceeding the budget does not fail the test, because durations depend on the
// machine; the table shows it.
func (b *bench) judge(what, measured string, value, atMost float64, unit string) {
	b.rows = append(b.rows, benchRow{what: what, measured: measured, budget: fmt.Sprintf("%g %s", atMost, unit), verdict: verdict(value, atMost)})
}

func verdict(value, atMost float64) string {
	if value > atMost {
		return "missed"
	}

	return "ok"
}

// TestBench measures the number of the driver's requests and the time to create machines, one after the other. Each
// measurement can also be run alone.
func TestBench(t *testing.T) {
	logByDefault(t)

	b := &bench{}

	for _, measure := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"requests", benchRequests},
		{"overhead", benchOverhead},
		{"burst", benchBurst},
		{"full zone", benchFullZone},
		{"kill", benchKill},
		{"stop", benchStop},
		{"outage", benchOutage},
	} {
		t.Run(measure.name, func(t *testing.T) {
			known := len(b.rows)

			measure.run(t, b)

			for _, r := range b.rows[known:] {
				t.Log(r)
			}
		})
	}

	var rows []string
	for _, r := range b.rows {
		rows = append(rows, r.String())
	}

	require.NoError(t, printTable(t.Context(), os.Stdout, row("measurement", "result", "budget", "verdict"), rows))
}

// benchRequests fails if a number of requests exceeds its budget: it does not depend on the machine.
func benchRequests(t *testing.T, b *bench) {
	says := map[string]string{
		"a machine's life": " (GetMachineStatus, not found; CreateMachine; InitializeMachine, scheduled in its wait; GetMachineStatus; " +
			"ListMachines; DeleteMachine)",
	}

	for _, count := range harness.CountRequests(t) {
		b.judge("requests of "+count.Method+says[count.Method],
			fmt.Sprintf("%d: %d reads, %d writes, %d watches", count.Sum(), count.Reads, count.Writes, count.Watches),
			float64(count.Sum()), float64(count.Total), "requests")
		assert.LessOrEqual(t, count.Sum(), count.Total, "requests of %s", count.Method)
	}
}

// benchBurst lets the real machine-controller-manager create two hundred machines whose disks
// take five minutes to clone. It measures the time until the last VirtualMachine exists, and
// the sidecar's peak usage.
func benchBurst(t *testing.T, b *bench) {
	s := harness.NewShoot(t)
	s.ImportImage(t, "image")
	s.Annotate(t, "sim.lab/clone-latency", "5m")
	s.RunControllers(t, "--machine-creation-timeout=20m")
	s.ApplyCredentials(t)

	machines := seenMachines(t, s, made)
	vms := seenVirtualMachines(t, s)
	s.AddPool(t, s.Name, burst, smallSpec(t, s, "zone-a", fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace)))

	took := vms.last(t, burst).Sub(machines.last(t, 1))
	b.judgeTime(fmt.Sprintf("first Machine to last VirtualMachine of %d, clones taking 5 min", burst), took, time.Minute)

	b.note(fmt.Sprintf("memory of the sidecar until then, with %d machines being created", burst), "peak "+size.of([]float64{memoryOf(t, s.Controller).Peak}))
	endMachines(t, s, "DataVolume image", "PersistentVolumeClaim image")
}

// benchFullZone measures the time from the scheduler's decision until a Machine reports
// ResourceExhausted, with Gardener's grace period.
func benchFullZone(t *testing.T, b *bench) {
	s := harness.NewShoot(t)
	s.RunControllers(t)
	s.ApplyCredentials(t)

	refused := seenInstances(t, s, unschedulable)
	told := seenMachines(t, s, harness.Exhausted)
	s.AddPool(t, s.Name, 1, s.Spec("zone-x", harness.EphemeralRoot))

	took := told.last(t, 1).Sub(refused.last(t, 1))
	b.judgeTime("pod unschedulable to ResourceExhausted on the Machine, of that 30 s of grace", took, 90*time.Second)
	endMachines(t, s)
}

// benchKill measures how long a sidecar takes to complete the creations during which
// its predecessor was killed.
func benchKill(t *testing.T, b *bench) {
	s := harness.NewShoot(t)
	vms := seenVirtualMachines(t, s)
	there, restarted := s.KillAmong(t, fifty)

	took := vms.last(t, fifty).Sub(restarted)
	b.judgeTime(fmt.Sprintf("restart after SIGKILL, with %d of %d VirtualMachines created, to the last one", there, fifty), took, 30*time.Second)
	s.RequireOnePerMachine(t, fifty)
	endMachines(t, s)
}

// benchStop measures how long the sidecar takes to stop while it waits for a machine.
// Gardener grants the pod 5 s.
func benchStop(t *testing.T, b *bench) {
	s := harness.NewShoot(t)
	s.ImportFor(t, time.Hour)
	s.RunControllers(t)
	s.ApplyCredentials(t)

	waits := seenVirtualMachines(t, s)
	s.AddPool(t, s.Name, 1, s.Spec("zone-a", harness.ImportedRoot))
	waits.last(t, 1)

	began := time.Now()

	harness.RequireStopsInOrder(t, s.Controller)
	b.judgeTime("SIGTERM to the end of a sidecar that waits for a machine", time.Since(began), 3*time.Second)

	s.Controller = s.StartSidecar(t)
	endMachines(t, s)
}

// judgeTime is judge for durations.
func (b *bench) judgeTime(what string, took, atMost time.Duration) {
	b.judge(what, seconds(took), took.Seconds(), atMost.Seconds(), "s")
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}
