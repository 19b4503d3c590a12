// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// formatTable returns the machines as a table, followed by the errors that they report. With a zero
// time it omits the ages: such tables are equal if nothing has changed.
func formatTable(rows []row, now time.Time) string {
	if len(rows) == 0 {
		return "  (no machines)"
	}
	var cells strings.Builder
	cells.WriteString("  MACHINE\tPHASE\tVM\tPROVIDER NODE\tZONE\tSHOOT NODE\tAGE\n")
	for _, r := range rows {
		age := ""
		if !now.IsZero() && !r.created.IsZero() {
			age = screen.Clock(max(0, now.Sub(r.created)))
		}
		fmt.Fprintf(&cells, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.phase, r.vm, r.providerNode, r.zone, r.shootNode, age)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = w.Write([]byte(cells.String())) // a strings.Builder never fails
	_ = w.Flush()
	if slices.ContainsFunc(rows, func(r row) bool { return r.vm == waitingVM && r.errorCode == "" }) {
		b.WriteString("  " + waitingVM + " is not a failure here: KubeVirt shows it until CDI can clone the golden image, which is being imported\n")
	}
	for _, r := range rows {
		if r.errorCode != "" {
			fmt.Fprintf(&b, "  ! %s: %s: %s\n", r.name, r.errorCode, reason(r.description))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// reason returns the driver's part of a last operation, which
// machine-controller-manager embeds in its own text.
func reason(description string) string {
	if _, rest, ok := strings.Cut(description, "message = ["); ok {
		description, _, _ = strings.Cut(rest, "]")
	}
	return oneLine(description)
}

// oneLine removes line breaks, which would break the table.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
