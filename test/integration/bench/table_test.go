// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// logByDefault lets the sidecars of a test log at the default level, because logging takes time and memory.
func logByDefault(t *testing.T) {
	t.Helper()

	searched := harness.Lab().SidecarArgs
	harness.Lab().SidecarArgs = nil

	t.Cleanup(func() { harness.Lab().SidecarArgs = searched })
}

// row returns a row in Markdown, with its cells separated for tabwriter.
func row(cells ...string) string { return "| " + strings.Join(cells, "\t| ") + "\t|" }

// printTable writes a table in Markdown.
func printTable(ctx context.Context, to io.Writer, header string, rows []string) error {
	if err := printHost(ctx, to); err != nil {
		return err
	}

	table := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, header)
	fmt.Fprintln(table, "|"+strings.Repeat("---\t|", strings.Count(header, "\t")))

	for _, r := range rows {
		fmt.Fprintln(table, r)
	}

	return table.Flush()
}

// laboratory says what of the lab is real.
var laboratory = "The control planes are real; kubelets, storage and guests are simulated."

// printHost writes when, where and with which versions a table was measured.
func printHost(ctx context.Context, to io.Writer) error {
	host, err := process.Host(ctx)
	if err != nil {
		return err
	}

	v := harness.Lab().Binaries
	_, err = fmt.Fprintf(to, "\n%s\nKubernetes %s, KubeVirt %s, CDI %s, machine-controller-manager %s. %s\n\n",
		host, v.KubernetesVersion, v.KubeVirtVersion, v.CDIVersion, v.MCMVersion, laboratory)

	return err
}

// quantity is how values are printed.
type quantity struct {
	unit   string
	digits int
}

var (
	requests  = quantity{}
	rate      = quantity{digits: 1}
	duration  = quantity{unit: " s", digits: 2}
	processor = quantity{unit: " s", digits: 3}
	size      = quantity{unit: " MiB"}
)

// of returns the median of values with their spread, or nothing without values.
func (q quantity) of(values []float64) string {
	one := func(value float64) string { return fmt.Sprintf("%.*f", q.digits, value) }

	switch len(values) {
	case 0:
		return ""
	case 1:
		return one(values[0]) + q.unit
	}

	const enough = 20 // Of fewer values, the 95th percentile is the maximum.

	spread := one(slices.Min(values)) + " to " + one(slices.Max(values))
	if len(values) >= enough {
		spread = "P95 " + one(percentile(values, 95)) + ", " + spread
	}

	return one(median(values)) + q.unit + " (" + spread + ")"
}

// median returns the middle value, or the mean of the two in the middle.
func median[T ~int64 | ~float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2

	if len(sorted)%2 == 1 {
		return sorted[middle]
	}

	return (sorted[middle-1] + sorted[middle]) / 2
}

// mean returns the arithmetic mean, or nothing without values.
func mean(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}

	sum := 0.0
	for _, v := range values {
		sum += v
	}

	return []float64{sum / float64(len(values))}
}

// percentile returns the nearest-rank percentile of the values.
func percentile[T cmp.Ordered](values []T, percent int) T {
	sorted := slices.Sorted(slices.Values(values))

	return sorted[(len(sorted)*percent+99)/100-1]
}
