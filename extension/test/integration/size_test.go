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
	"strings"
	"testing"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const (
	// foreign is the number of Clusters of another provider, with a CloudProfile of 1 MiB each. etcd and the API server's
	// cache limit it: TestForeignClusters measures eight times as many.
	foreign = 100
	// maximumMiB is the budget of the extension's memory with one hundred shoots. Without any, Gardener's library and
	// Helm take a hundred.
	maximumMiB = 135
	// profiled is the number of shoots with which the extension's processor time is profiled.
	profiled = 1000
)

// TestThousandShoots measures the requests of a reconciliation without a change, and then the extension with the objects
// of ten to a thousand shoots beside those of another provider: its memory after its start, and after it reconciled all
// Infrastructures and one Worker; the time of that reconciliation; and what it uses while nothing changes. The shoots are
// copies of one, of which each has its own credentials, and share its machines: the lab has no room for more of them.
// Finally, it prints where the extension spends its processor time while it reconciles them.
func TestThousandShoots(t *testing.T) {
	used := memory(t)
	t.Logf("without shoots: %.0f MiB RSS, peak %.0f MiB", used.RSS, used.Peak)

	require.NoError(t, theSeed.RestartExtension(t.Context(), func() error { return createForeign(t.Context()) }))

	used = memory(t)
	t.Logf("without shoots, %d MiB of foreign Clusters: %.0f MiB RSS, peak %.0f MiB", foreign, used.RSS, used.Peak)

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
		"| shoots | memory after the start | after all reconciliations | peak | per 100 more shoots | all Infrastructures reconciled in " +
			"| processor time a minute at rest | requests to the seed a minute | to the provider cluster |",
		"|---|---|---|---|---|---|---|---|---|",
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

	fmt.Fprintf(os.Stdout, "\nBeside %d Clusters of another provider with a CloudProfile of 1 MiB each:\n\n%s\n", foreign, strings.Join(rows, "\n"))
}

// measurement is what the extension uses with a number of shoots.
type measurement struct {
	shoots              int
	started, reconciled process.Memory
	took, processor     time.Duration
	toSeed, toProvider  int
}

// measure restarts the extension with more copies of a shoot.
func measure(t *testing.T, shoot *seed.Botanist, known, shoots int) measurement {
	t.Helper()

	m := measurement{shoots: shoots}
	copies := func() error { return shoot.Copies(t.Context(), max(known, 1)-1, shoots-1) }

	require.NoError(t, theSeed.RestartExtension(t.Context(), copies))

	m.started = memory(t)
	m.took = reconcileAll(t, shoots)

	require.NoError(t, shoot.Reconcile(t.Context())) // It makes the extension cache the objects of all Workers.

	m.reconciled = memory(t)
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

	took := reconcileAll(t, shoots)
	require.NoError(t, shoot.Reconcile(t.Context()))
	require.NoError(t, <-done)

	hottest, err := process.Hottest(t.Context(), file)
	require.NoError(t, err)
	t.Logf("profile of %s, the Infrastructures were reconciled in %s: %s\n%s", during, took, file, hottest)
}

// rest measures a minute in which only health checks run. The minute before, the reconciliations end.
func (m *measurement) rest(t *testing.T) {
	t.Helper()

	<-time.NewTimer(time.Minute).C

	before, err := process.TimeOf(theSeed.Extension.PID())
	require.NoError(t, err)

	start := time.Now()

	<-time.NewTimer(time.Minute).C

	end := time.Now()

	after, err := process.TimeOf(theSeed.Extension.PID())
	require.NoError(t, err)

	m.processor = after - before
	m.toSeed, m.toProvider, err = theSeed.CountRequests(extensionAccount, start, end)
	require.NoError(t, err)
}

// row returns the row of a measurement in Markdown, with the slope since the last one.
func (m *measurement) row(last measurement) string {
	slope := ""
	if last.shoots > 0 {
		slope = fmt.Sprintf("%+.1f MiB", (m.reconciled.RSS-last.reconciled.RSS)/float64(m.shoots-last.shoots)*100)
	}

	peak := fmt.Sprintf("%.0f MiB", m.reconciled.Peak)
	if m.shoots == 100 {
		peak += fmt.Sprintf(" (budget %d MiB)", maximumMiB)
	}

	return fmt.Sprintf("| %d | %.0f MiB | %.0f MiB | %s | %s | %.1f s | %.2f s | %d | %d |", m.shoots, m.started.RSS, m.reconciled.RSS, peak, slope,
		m.took.Seconds(), m.processor.Seconds(), m.toSeed, m.toProvider)
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

// reconcileAll asks for the reconciliation of all Infrastructures at once, and returns how long it takes.
func reconcileAll(t *testing.T, shoots int) time.Duration {
	t.Helper()

	const every, atMost = time.Second, 20 * time.Minute

	began := time.Now()
	start := began.Truncate(time.Second)

	list := &extensionsv1alpha1.InfrastructureList{}
	require.NoError(t, theSeed.Client.List(t.Context(), list))
	require.Len(t, list.Items, shoots)

	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&list.Items[i].ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
		require.NoError(t, theSeed.Client.Patch(t.Context(), &list.Items[i], client.MergeFrom(before)))
	}

	done := 0
	err := wait.PollUntilContextTimeout(t.Context(), every, atMost, true, func(ctx context.Context) (bool, error) {
		if err := theSeed.Client.List(ctx, list); err != nil {
			return false, err
		}

		done = 0

		for i := range list.Items {
			last := list.Items[i].Status.LastOperation
			if last != nil && last.State == "Succeeded" && !last.LastUpdateTime.Time.Before(start) {
				done++
			}
		}

		return done == shoots, nil
	})
	require.NoError(t, err, "%d of %d Infrastructures are reconciled", done, shoots)

	return time.Since(began)
}

// memory returns the memory of the extension.
func memory(t *testing.T) process.Memory {
	t.Helper()

	used, err := process.MemoryOf(theSeed.Extension.PID())
	require.NoError(t, err)

	return used
}
