// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// atRest is what a sidecar with many running machines uses while nothing changes.
type atRest struct {
	rest

	machines int
	peak     float64
	// lists are the durations of ListMachines, and pages its number of requests.
	lists []float64
	pages int
}

// TestSize measures sidecars of one shoot at rest, from no machine to five thousand, and their lists. The lab has no room
// for so many guests: all objects exist, as the API servers of a real shoot have them, but the VirtualMachines are never
// started. The driver keeps no state for running machines and does not read them, so that neither memory nor lists depend
// on guests. Its objects remain until the lab ends. With a thousand machines, it prints where the sidecar spends its
// processor time while others are replaced.
func TestSize(t *testing.T) {
	logByDefault(t)

	s := harness.NewShoot(t)
	provider := s.ProxyProvider(t)
	s.ApplyCredentials(t)
	addClass(t, s, smallSpec(t, s, "zone-a", harness.EphemeralRoot))

	machines := newPretended(t, s)

	var (
		rows []string
		last atRest
	)

	for _, many := range []int{0, ten, hundred, thousand, fiveThousand} {
		machines.grow(t, many)

		now := machines.atRest(t, provider)
		rows = append(rows, now.row(last))
		last = now

		t.Log(rows[len(rows)-1])
	}

	require.NoError(t, printTable(os.Stdout, row("running machines", "memory of the sidecar", "peak", "per 1000 more machines", "processor time a minute",
		"per 1000 more machines", "requests to the provider cluster a minute", "ListMachines", "its requests"), rows))
}

// orphanPeriod is the default of machine-controller-manager.
const orphanPeriod = 15 * time.Minute

// atRest starts a sidecar for the machines, and measures it when it has worked on all of them.
func (p *pretended) atRest(t *testing.T, provider *harness.Line) atRest {
	t.Helper()

	const minutes = 2

	listed := provider.Asked("list virtualmachines")

	// It lists its machines when it starts, too.
	sidecar := p.StartSidecar(t, "--machine-safety-orphan-vms-period="+orphanPeriod.String(), "--profiling")

	harness.Within(t, longest, "the sidecar has worked on all Machines", func(ctx context.Context) (bool, error) {
		if provider.Asked("list virtualmachines") == listed {
			return false, nil
		}

		return p.allRun(ctx)
	})

	controllers := &peer{Shoot: p.Shoot, line: provider, processes: []*process.Process{sidecar}}
	now := atRest{machines: len(p.nodes), rest: controllers.rest(t, minutes), peak: memoryOf(t, sidecar).Peak}

	still, err := p.allRun(t.Context())
	require.NoError(t, err)
	require.True(t, still, "all Machines run")

	if now.machines == thousand {
		p.profile(t, sidecar)
	}

	require.NoError(t, sidecar.Stop(t.Context()))

	now.lists, now.pages = p.list(t, provider)

	return now
}

// list measures the list of all machines with a driver of its own, which has the process to itself.
func (p *pretended) list(t *testing.T, provider *harness.Line) (took []float64, pages int) {
	t.Helper()

	const rounds = 5

	options := driveroptions.New()
	options.Machines.OrphanPeriod = orphanPeriod

	clusters, err := options.ProviderClusters(prometheus.NewRegistry())
	require.NoError(t, err)

	for range rounds {
		before := len(provider.Calls())
		began := time.Now()

		found, err := clusters.Machines.ListMachines(t.Context(), &spi.ListMachinesInput{
			Kubeconfig: p.ProviderKubeconfig,
			Identity:   spi.Identity{Cluster: p.address.Cluster, Role: p.address.Role},
		})

		took = append(took, time.Since(began).Seconds())

		require.NoError(t, err)
		require.Len(t, found, len(p.nodes))

		pages = len(provider.Calls()) - before
	}

	return took, pages
}

// row returns the row of a size, with the slopes since the last one.
func (a atRest) row(last atRest) string {
	const budgeted, budget = hundred, 80

	memory := size.of([]float64{a.memory})
	if a.machines == budgeted {
		memory += fmt.Sprintf(" (budget %d MiB)", budget)
	}

	return row(fmt.Sprint(a.machines), memory, size.of([]float64{a.peak}), a.slope(last, size, []float64{a.memory}, []float64{last.memory}),
		processor.of(a.processor), a.slope(last, processor, a.processor, last.processor),
		requests.of(a.requests), processor.of(a.lists), fmt.Sprint(a.pages))
}

// slope returns the difference of two medians per thousand machines. The first size has none.
func (a atRest) slope(last atRest, in quantity, now, before []float64) string {
	more := float64(a.machines - last.machines)
	if more == 0 {
		return ""
	}

	return fmt.Sprintf("%+.*f%s", in.digits, (percentile(now, 50)-percentile(before, 50))/more*thousand, in.unit)
}
