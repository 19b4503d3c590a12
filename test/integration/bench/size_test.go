// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// atRest is what a sidecar with many running machines uses while only kubelets report.
type atRest struct {
	machines int
	peak     float64
	// memory, processor and requests are of each minute: the memory at its end, the processor time in seconds, and the
	// number of requests to the provider cluster.
	memory, processor, requests []float64
	// mean is the mean of processor: work that is done every few minutes has no effect on the median.
	mean float64
	// lists are the durations of ListMachines, and pages its number of requests.
	lists []float64
	pages int
}

// TestSize measures sidecars of one shoot at rest, from no machine to five thousand, and their lists. The lab has no room
// for so many guests: all objects exist, as the API servers of a real shoot have them, and the test writes what the kubelets
// write, but the VirtualMachines are never started. The driver keeps no state for running machines and does not read them,
// so that neither memory nor lists depend on guests. Its objects remain until the lab ends. With a thousand machines, it
// prints where the sidecar spends its processor time while others are replaced. Go's memory limit is that of the manifests. One
// size can be measured alone, such as with -run '^TestSize$/^1000$'.
func TestSize(t *testing.T) {
	logByDefault(t)

	variable, limit, _ := strings.Cut(hostile.MemoryLimit, "=")
	t.Setenv(variable, limit)

	s := harness.NewShoot(t)
	provider := s.ProxyProvider(t)
	s.ApplyCredentials(t)
	addClass(t, s, smallSpec(t, s, "zone-a", harness.EphemeralRoot))

	machines := newPretended(t, s)

	var (
		rows  []string
		empty *atRest
	)

	for _, many := range []int{0, hundred, thousand, fiveThousand} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			machines.grow(t, many)

			now := machines.atRest(t, provider)
			if many == 0 {
				empty = now
			}

			rows = append(rows, now.row(empty))
			t.Log(rows[len(rows)-1])
		})
	}

	require.NoError(t, printTable(t.Context(), os.Stdout, row("running machines", "memory of the sidecar", "peak", "memory per 1000 machines",
		"processor time a minute, mean of 10", "per 1000 machines", "requests to the provider cluster a minute", "ListMachines", "its requests"), rows))
}

const (
	// orphanPeriod is the default of machine-controller-manager.
	orphanPeriod = 15 * time.Minute
	// minutesAtRest is the period in which machine-controller-manager reconciles each Machine. Kubelets report twice.
	minutesAtRest = 10
)

// atRest starts a sidecar for the machines, and measures it when it has worked on all of them.
func (p *pretended) atRest(t *testing.T, provider *harness.Line) *atRest {
	t.Helper()

	listed := provider.Asked("list virtualmachines")

	// It lists its machines when it starts, too.
	sidecar := p.StartSidecar(t, "--machine-safety-orphan-vms-period="+orphanPeriod.String(), "--profiling")

	harness.Within(t, longest, "the sidecar has worked on all Machines", func(context.Context) (bool, error) {
		return provider.Asked("list virtualmachines") > listed && p.allRun(), nil
	})

	now := &atRest{machines: len(p.nodes)}
	now.rest(t, sidecar, provider)

	require.True(t, p.allRun(), "all Machines still run")

	if now.machines == thousand {
		p.profile(t, sidecar)
	}

	require.NoError(t, sidecar.Stop(t.Context()))

	now.lists, now.pages = p.list(t, provider)

	return now
}

// rest measures the sidecar minute by minute, after a first one in which it comes to rest.
func (a *atRest) rest(t *testing.T, sidecar *process.Process, provider *harness.Line) {
	t.Helper()

	<-time.NewTimer(time.Minute).C

	begin := processorTime(t, sidecar)

	for range minutesAtRest {
		used := processorTime(t, sidecar)
		asked := provider.Count()

		<-time.NewTimer(time.Minute).C

		a.processor = append(a.processor, (processorTime(t, sidecar) - used).Seconds())
		a.requests = append(a.requests, float64(provider.Count()-asked))
		a.memory = append(a.memory, memoryOf(t, sidecar).Used)
	}

	a.mean = (processorTime(t, sidecar) - begin).Seconds() / minutesAtRest
	a.peak = memoryOf(t, sidecar).Peak
}

// list measures the list of all machines with a driver of its own. It runs in this process, which also forwards its requests
// and acts as the kubelets.
func (p *pretended) list(t *testing.T, provider *harness.Line) (took []float64, pages int) {
	t.Helper()

	const rounds = 5

	options := driveroptions.New()
	options.Machines.OrphanPeriod = orphanPeriod

	clusters, err := options.ProviderClusters(prometheus.NewRegistry())
	require.NoError(t, err)

	for range rounds {
		before := provider.Count()
		began := time.Now()

		found, err := clusters.Machines.ListMachines(t.Context(), &spi.ListMachinesInput{
			Kubeconfig: p.ProviderKubeconfig,
			Identity:   spi.Identity{Cluster: p.address.Cluster, Role: p.address.Role},
		})

		took = append(took, time.Since(began).Seconds())

		require.NoError(t, err)
		require.Len(t, found, len(p.nodes))

		pages = provider.Count() - before
	}

	return took, pages
}

// peakBudgets are the most MiB of a sidecar with a number of machines. The greatest number has to fit into the container.
var peakBudgets = map[int]float64{hundred: 40, fiveThousand: hostile.ContainerLimit >> 20}

// row returns the row of a size, with what a thousand machines add to an empty sidecar, if that was measured.
func (a *atRest) row(empty *atRest) string {
	peak := size.of([]float64{a.peak})
	if budget, judged := peakBudgets[a.machines]; judged {
		peak += fmt.Sprintf(", budget %.0f MiB: %s", budget, verdict(a.peak, budget))
	}

	var memoryAdded, processorAdded string
	if empty != nil && a.machines > 0 {
		memoryAdded = a.perThousand(size, median(a.memory)-median(empty.memory))
		processorAdded = a.perThousand(processor, a.mean-empty.mean)
	}

	return row(fmt.Sprint(a.machines), size.of(a.memory), peak, memoryAdded,
		fmt.Sprintf("%.3f s (%.3f to %.3f)", a.mean, slices.Min(a.processor), slices.Max(a.processor)), processorAdded,
		requests.of(a.requests), processor.of(a.lists), fmt.Sprint(a.pages))
}

// perThousand returns what a thousand machines add to a quantity.
func (a *atRest) perThousand(in quantity, added float64) string {
	return fmt.Sprintf("%.*f%s", in.digits, added/float64(a.machines)*thousand, in.unit)
}
