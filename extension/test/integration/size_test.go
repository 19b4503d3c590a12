// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const (
	// foreign is the number of Clusters of another provider, with a CloudProfile of 1 MiB each. etcd and the API server's
	// cache limit it: TestForeignClusters measures eight times as many.
	foreign = 100
	// maximumMiB is the budget of the extension's memory with one hundred shoots, without the pages of its program's file.
	maximumMiB = 75
	// profiled is the number of shoots with which the extension's processor time is profiled.
	profiled = 1000
)

// TestThousandShoots measures the requests of a reconciliation without a change, and then the extension with the objects
// of ten to a thousand shoots beside those of another provider: its memory after its start; the time in which it reconciles
// all Infrastructures and one Worker; and what it uses afterwards, while nothing changes. The shoots are copies of one, of
// which each has its own credentials, and share its machines: the lab has no room for more of them.
// Finally, it prints where the extension spends its processor time while it reconciles them.
func TestThousandShoots(t *testing.T) {
	used := memory(t)
	t.Logf("without shoots: %.0f MiB, peak %.0f MiB", used.Used, used.Peak)

	require.NoError(t, theSeed.RestartExtension(t.Context(), func() error { return createForeign(t.Context()) }))

	used = memory(t)
	t.Logf("without shoots, %d MiB of foreign Clusters: %.0f MiB, peak %.0f MiB", foreign, used.Used, used.Peak)

	shoot := newShoot(t, named("copied"))
	shoot.HasControlPlane = true
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 3)

	start := time.Now()
	require.NoError(t, shoot.Reconcile(t.Context()))

	requests, err := shoot.Requests(start)
	require.NoError(t, err)
	t.Logf("a reconciliation without a change: %d requests to the provider cluster: %v", len(requests), requests)

	rows := []string{
		"| shoots | memory after the start | at rest | peak | per 100 more shoots | all Infrastructures requested within " +
			"| all reconciled | processor time a minute at rest | requests to the seed a minute | to the provider cluster |",
		"|---|---|---|---|---|---|---|---|---|---|",
	}
	last := measurement{}
	theSeed.ExtensionArgs = []string{"--profiling"}

	t.Cleanup(func() { theSeed.ExtensionArgs = nil })

	for _, shoots := range []int{10, 100, profiled} {
		now := measure(t, shoot, last.shoots, shoots)
		rows = append(rows, now.row(last))
		last = now

		t.Log(rows[len(rows)-1])
	}

	host, err := process.Host(t.Context())
	require.NoError(t, err)
	fmt.Fprintf(os.Stdout, "\n%s\n%s. Beside %d Clusters of another provider with a CloudProfile of 1 MiB each:\n\n%s\n",
		host, theSeed.Versions(), foreign, strings.Join(rows, "\n"))
}

// measurement is what the extension uses with a number of shoots.
type measurement struct {
	shoots  int
	started process.Memory
	// peak is the most memory in MiB before the rest.
	peak float64
	// requested is how long the requests of all reconciliations took, and took the time from the first of them to the end of
	// all reconciliations.
	requested, took time.Duration
	// memory is that in MiB after each minute at rest, processor the processor time in seconds, toSeed and toProvider are
	// numbers of requests of each.
	memory, processor, toSeed, toProvider []float64
}

// measure restarts the extension with more copies of a shoot.
func measure(t *testing.T, shoot *seed.Botanist, known, shoots int) measurement {
	t.Helper()

	m := measurement{shoots: shoots}
	copies := func() error { return shoot.Copies(t.Context(), max(known, 1)-1, shoots-1) }

	require.NoError(t, theSeed.RestartExtension(t.Context(), copies))

	m.started = memory(t)
	m.requested, m.took = reconcileAll(t, shoots)

	require.NoError(t, shoot.Reconcile(t.Context())) // It makes the extension cache the objects of all Workers.

	m.peak = memory(t).Peak
	m.rest(t)

	if shoots == profiled {
		profile(t, shoot, shoots)
	}

	return m
}

// profile shows where the extension spends its processor time while all Infrastructures and one Worker are reconciled,
// beside health checks.
func profile(t *testing.T, shoot *seed.Botanist, shoots int) {
	t.Helper()

	const during = 30 * time.Second

	metrics, err := url.Parse(theSeed.ExtensionMetrics)
	require.NoError(t, err)

	file := filepath.Join(t.ArtifactDir(), fmt.Sprintf("extension-%d-shoots.pprof", shoots))
	done := make(chan error, 1)

	go func() { done <- process.Profile(t.Context(), metrics.Host, file, during) }()

	_, took := reconcileAll(t, shoots)
	require.NoError(t, shoot.Reconcile(t.Context()))
	require.NoError(t, <-done)

	hottest, err := process.Hottest(t.Context(), file)
	require.NoError(t, err)
	t.Logf("profile of %s, the Infrastructures were reconciled in %s: %s\n%s", during, took, file, hottest)
}

// rest measures minutes in which only health checks run. The minute before, the reconciliations end.
func (m *measurement) rest(t *testing.T) {
	t.Helper()

	const minutes = 3

	var begun []time.Time

	<-time.NewTimer(time.Minute).C

	for range minutes {
		before, err := process.TimeOf(theSeed.Extension.PID())
		require.NoError(t, err)

		begun = append(begun, time.Now())

		<-time.NewTimer(time.Minute).C

		after, err := process.TimeOf(theSeed.Extension.PID())
		require.NoError(t, err)

		m.processor = append(m.processor, (after - before).Seconds())
		m.memory = append(m.memory, memory(t).Used)
	}

	// The log is read last, because that takes processor time.
	for _, minute := range begun {
		toSeed, toProvider, err := theSeed.CountRequests(extensionAccount, minute, minute.Add(time.Minute))
		require.NoError(t, err)

		m.toSeed = append(m.toSeed, float64(toSeed))
		m.toProvider = append(m.toProvider, float64(toProvider))
	}
}

// ofMinutes returns the median of the minutes, which are an odd number, with their range.
func ofMinutes(values []float64, digits int, unit string) string {
	return fmt.Sprintf("%.*f%s (%.*f to %.*f)", digits, medianOf(values), unit, digits, slices.Min(values), digits, slices.Max(values))
}

func medianOf(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// row returns the row of a measurement in Markdown, with the slope since the last one.
func (m *measurement) row(last measurement) string {
	slope := ""
	if last.shoots > 0 {
		slope = fmt.Sprintf("%+.1f MiB", (medianOf(m.memory)-medianOf(last.memory))/float64(m.shoots-last.shoots)*100)
	}

	peak := fmt.Sprintf("%.0f MiB", m.peak)
	if m.shoots == 100 {
		peak += fmt.Sprintf(" (budget %d MiB: %s)", maximumMiB, verdict(m.peak, maximumMiB))
	}

	return fmt.Sprintf("| %d | %.0f MiB | %s | %s | %s | %.1f s | %.1f s | %s | %s | %s |", m.shoots, m.started.Used, ofMinutes(m.memory, 0, " MiB"), peak, slope,
		m.requested.Seconds(), m.took.Seconds(), ofMinutes(m.processor, 2, " s"), ofMinutes(m.toSeed, 0, ""), ofMinutes(m.toProvider, 0, ""))
}

// verdict judges a value that depends on the machine: it does not fail the test.
func verdict(value, budget float64) string {
	if value > budget {
		return "missed"
	}

	return "ok"
}

// createForeign creates Clusters of another provider. Their CloudProfiles have many short texts, as real ones have.
func createForeign(ctx context.Context) error {
	const image = `{"name":"ubuntu","versions":[{"version":"24.4.20260101","architectures":["amd64"]}]}`

	images := strings.Repeat(image+",", (1<<20)/len(image)) + image

	for i := range foreign {
		name := fmt.Sprintf("shoot--foreign--%d", i)
		cluster := &extensionsv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: extensionsv1alpha1.ClusterSpec{
				CloudProfile: runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"CloudProfile",
					"metadata":{"name":"aws"},"spec":{"type":"aws","machineImages":[` + images + `]}}`)},
				Seed: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Seed","metadata":{"name":"seed"}}`)},
				Shoot: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot",
					"metadata":{"name":"s%d","namespace":"garden-foreign"},"spec":{"provider":{"type":"aws"}},"status":{"technicalID":%q}}`, i, name)},
			},
		}
		if err := theSeed.Client.Create(ctx, cluster); err != nil {
			return fmt.Errorf("create Cluster %s: %w", name, err)
		}
	}

	return nil
}

// reconcileAll requests the reconciliation of all Infrastructures. It returns how long the requests took, and the time from
// the first of them to the end of all reconciliations.
func reconcileAll(t *testing.T, shoots int) (requested, took time.Duration) {
	t.Helper()

	const atATime, atMost = 16, 20 * time.Minute

	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()

	list := &extensionsv1alpha1.InfrastructureList{}
	require.NoError(t, theSeed.Client.List(ctx, list))
	require.Len(t, list.Items, shoots)

	changes, err := theSeed.WatchInfrastructures(ctx, list.ResourceVersion)
	require.NoError(t, err)

	reconciled := make(chan time.Time, 1)

	go func() { reconciled <- lastReconciled(changes, shoots) }()

	begun := time.Now()
	requests, requestsCtx := errgroup.WithContext(ctx)
	requests.SetLimit(atATime)

	for i := range list.Items {
		requests.Go(func() error { return requestReconciliation(requestsCtx, &list.Items[i]) })
	}

	require.NoError(t, requests.Wait())

	requested = time.Since(begun)
	end := <-reconciled

	require.False(t, end.IsZero(), "the Infrastructures are not reconciled within %s", atMost)

	return requested, end.Sub(begun)
}

func requestReconciliation(ctx context.Context, infrastructure *extensionsv1alpha1.Infrastructure) error {
	before := infrastructure.DeepCopy()
	metav1.SetMetaDataAnnotation(&infrastructure.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)

	return theSeed.Client.Patch(ctx, infrastructure, client.MergeFrom(before))
}

// lastReconciled returns when the last of a number of Infrastructures was reconciled. It returns the zero time if the watch
// ends before.
func lastReconciled(changes watch.Interface, many int) time.Time {
	defer changes.Stop()

	processing := map[string]bool{}
	reconciled := map[string]bool{}

	for change := range changes.ResultChan() {
		infrastructure, ok := change.Object.(*extensionsv1alpha1.Infrastructure)
		if !ok || infrastructure.Status.LastOperation == nil {
			continue
		}

		// The state is still that of the previous reconciliation when the next one is requested.
		namespace := infrastructure.Namespace
		state := infrastructure.Status.LastOperation.State
		processing[namespace] = processing[namespace] || state == gardencorev1beta1.LastOperationStateProcessing

		if processing[namespace] && state == gardencorev1beta1.LastOperationStateSucceeded {
			reconciled[namespace] = true
		}

		if len(reconciled) == many {
			return time.Now()
		}
	}

	return time.Time{}
}

// memory returns the memory of the extension.
func memory(t *testing.T) process.Memory {
	t.Helper()

	used, err := process.MemoryOf(theSeed.Extension.PID())
	require.NoError(t, err)

	return used
}
