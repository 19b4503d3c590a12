//go:build bench

package integration

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// How much is measured. The machines are small, so that the lab's hosts have room for them.
const (
	fifty    = 50
	burst    = 200
	thousand = 1000
	listed   = 2000
)

// bench collects the rows of the table.
type bench struct {
	rows []benchRow
}

// benchRow is something that was measured, and what it may be at most.
type benchRow struct {
	what, measured, budget string
}

func (b *bench) add(what, measured, budget string) {
	b.rows = append(b.rows, benchRow{what: what, measured: measured, budget: budget})
}

// TestBench prints how many requests the driver makes, how long machines take, and what the sidecar needs, one measurement after the other.
func TestBench(t *testing.T) {
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
		{"memory", benchMemory},
		{"list", benchList},
	} {
		t.Run(measure.name, func(t *testing.T) { measure.run(t, b) })
	}

	require.NoError(t, b.print(os.Stdout))
}

// print writes the table in Markdown.
func (b *bench) print(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)

	fmt.Fprintf(table, "\nMeasured on %s, %d cores, %s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), runtime.GOARCH, runtime.Version())
	fmt.Fprintf(table, "| what\t| measured\t| budget\t|\n|---\t|---\t|---\t|\n")

	for _, row := range b.rows {
		fmt.Fprintf(table, "| %s\t| %s\t| %s\t|\n", row.what, row.measured, row.budget)
	}

	return table.Flush()
}

func benchRequests(t *testing.T, b *bench) {
	for _, count := range countRequests(t) {
		b.add("requests of "+count.method,
			fmt.Sprintf("%d (%d reads, %d writes, %d watches)", count.reads+count.writes+count.watches, count.reads, count.writes, count.watches),
			fmt.Sprint(count.budget[0]+count.budget[1]+count.budget[2]))
	}
}

// benchBurst has the real machine-controller-manager make two hundred machines whose disks take five minutes to clone, and looks when the
// last VirtualMachine is there. What the sidecar needs meanwhile is measured too.
func benchBurst(t *testing.T, b *bench) {
	s := newShoot(t)
	s.importImage(t, "image")
	s.annotate(t, "sim.lab/clone-latency", "5m")
	s.runControllers(t, "--machine-creation-timeout=20m")
	b.add("memory of the idle sidecar", memoryOf(s.controller), "")

	s.applyCredentials(t)

	machines, vms := s.seenMachines(t, made), s.seenVirtualMachines(t)
	s.addPool(t, s.Name, burst, s.smallSpec(t, "zone-a", fmt.Sprintf(`{"source":{"pvc":{"name":"image","namespace":%q}},
		"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`, s.ProviderNamespace)))

	vms.last(t, burst/2)
	b.add(fmt.Sprintf("memory of the sidecar at %d machines on their way", burst/2), memoryOf(s.controller), "80 MiB")

	took := vms.last(t, burst).Sub(machines.last(t, 1))
	b.add(fmt.Sprintf("first Machine to last VirtualMachine of %d, clones taking 5 min", burst), seconds(took), "60 s")
	b.add(fmt.Sprintf("memory of the sidecar at %d machines on their way", burst), memoryOf(s.controller), "")
	s.scale(t, s.Name, 0)
	s.awaitImageEnd(t)
}

// benchFullZone measures how long after the scheduler's word a Machine says ResourceExhausted, with the grace that Gardener has.
func benchFullZone(t *testing.T, b *bench) {
	s := newShoot(t)
	s.runControllers(t)
	s.applyCredentials(t)

	refused, told := s.seenInstances(t, unschedulable), s.seenMachines(t, exhausted)
	s.addPool(t, s.Name, 1, s.spec("zone-x", ephemeralRoot))

	took := told.last(t, 1).Sub(refused.last(t, 1))
	b.add("pod unschedulable to ResourceExhausted on the Machine, of that 30 s of grace", seconds(took), "90 s")
	s.awaitEnd(t)
}

// benchKill kills the sidecar in the middle of creations, and measures how long the next one takes to complete them. The machines
// have no place, which keeps them cheap.
func benchKill(t *testing.T, b *bench) {
	s := newShoot(t)
	s.runControllers(t)
	s.applyCredentials(t)

	vms := s.seenVirtualMachines(t)
	s.addPool(t, s.Name, fifty, s.spec("zone-x", ephemeralRoot))
	vms.last(t, fifty/2)

	began := time.Now()

	s.killSidecar(t)

	took := vms.last(t, fifty).Sub(began)
	b.add(fmt.Sprintf("SIGKILL among %d creations to the last VirtualMachine", fifty), seconds(took), "30 s")
	s.requireOnePerMachine(t, fifty)
	s.awaitEnd(t)
}

// benchList measures a kill list of thousands.
func benchList(t *testing.T, b *bench) {
	s, c := newShoot(t), &counter{}
	s.haltedVMs(t, listed, 0)

	began := time.Now()
	all, err := s.newMachine("zone-a", ephemeralRoot).list(t.Context(), newDriver(settings{grace: time.Minute, wrap: c.wrap}))
	took := time.Since(began)

	require.NoError(t, err)
	require.Len(t, all, listed)

	reads, _, _ := c.take()
	b.add(fmt.Sprintf("ListMachines of %d", listed), fmt.Sprintf("%d requests, %s", reads, took.Round(time.Millisecond)), fmt.Sprintf("%d requests", listed/500))
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}
