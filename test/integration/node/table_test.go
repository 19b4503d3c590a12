// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// table is what TestMain prints when all tests have ended.
var table struct {
	sync.Mutex

	scenarios  []scenario
	migrations []migration
}

// scenario is a test that ran a machine.
type scenario struct {
	name   string
	failed bool
	took   time.Duration
}

// migration is a live migration, with what shows that the guest has gone on.
type migration struct {
	scenario      string
	took          time.Duration
	before, after string
}

// record adds a test to the table when it ends.
func record(t *testing.T) {
	t.Helper()

	begin := time.Now()

	t.Cleanup(func() {
		table.Lock()
		defer table.Unlock()

		table.scenarios = append(table.scenarios, scenario{name: t.Name(), failed: t.Failed(), took: time.Since(begin)})
	})
}

// recordMigration adds a live migration to the table.
func recordMigration(t *testing.T, took time.Duration, before, after string) {
	t.Helper()

	table.Lock()
	defer table.Unlock()

	table.migrations = append(table.migrations, migration{scenario: t.Name(), took: took, before: before, after: after})
}

// printTable prints the scenarios of this run, its migrations, and versions of what it ran.
func printTable(to io.Writer, versions []string) {
	table.Lock()
	defer table.Unlock()

	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0) //nolint:mnd // spaces between columns
	defer w.Flush()                               //nolint:errcheck // the output of a test

	fmt.Fprintln(w, "\nscenario\tresult\tseconds")
	slices.SortFunc(table.scenarios, func(a, b scenario) int { return cmp.Compare(a.name, b.name) })

	for _, s := range table.scenarios {
		fmt.Fprintf(w, "%s\t%s\t%.0f\n", s.name, map[bool]string{true: "FAILED", false: "passed"}[s.failed], s.took.Seconds())
	}

	fmt.Fprintln(w, "\nlive migration\tseconds\tthe guest before\tafter")

	for _, m := range table.migrations {
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%s\n", m.scenario, m.took.Seconds(), m.before, m.after)
	}

	fmt.Fprintf(w, "\nversions\t%s\n", strings.Join(versions, ", "))
}
