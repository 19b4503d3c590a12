// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// proof is one test with what it proves.
type proof struct {
	test, what string
	failed     bool
	wall, cpu  time.Duration // cpu is QEMU's
}

// proofs are the results of a run. The tests with guests run one after the other, since their guests
// would only compete for the same processors.
type proofs struct {
	rows   []proof
	image  string        // a description of the guests' image
	ready  time.Duration // from the start until the lab was ready for the first test
	failed bool          // the run has failed, possibly for another reason than a test
}

// String implements fmt.Stringer.
func (p proofs) String() string {
	if len(p.rows) == 0 {
		return "Nothing is proven: no test with a guest has ended."
	}

	var b strings.Builder

	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "RESULT\tTEST\tTIME\tQEMU CPU\tPROVES\n")

	total := proof{test: "all", wall: p.ready}

	for _, row := range p.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.result(), row.test, inSeconds(row.wall), inSeconds(row.cpu), row.what)

		total.wall += row.wall
		total.cpu += row.cpu
		total.failed = total.failed || row.failed
	}

	total.failed = total.failed || p.failed
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s until the lab was ready\n",
		total.result(), total.test, inSeconds(total.wall), inSeconds(total.cpu), inSeconds(p.ready))
	_ = w.Flush() // a strings.Builder never fails

	return b.String() + p.image
}

func (p proof) result() string {
	if p.failed {
		return "FAILED"
	}

	return "passed"
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

func TestTable(t *testing.T) {
	t.Parallel()

	require.Contains(t, proofs{}.String(), "Nothing is proven")

	table := proofs{
		rows: []proof{
			{test: "TestA", what: "a guest joins", wall: 200 * time.Second, cpu: 150 * time.Second},
			{test: "TestLonger", what: "a guest restarts", failed: true, wall: 100 * time.Second, cpu: 80 * time.Second},
		},
		ready: 30 * time.Second,
		image: "image: 700 MiB",
	}
	require.Equal(t, strings.Join([]string{
		"RESULT  TEST        TIME   QEMU CPU  PROVES",
		"passed  TestA       200 s  150 s     a guest joins",
		"FAILED  TestLonger  100 s  80 s      a guest restarts",
		"FAILED  all         330 s  230 s     30 s until the lab was ready",
		"image: 700 MiB",
	}, "\n"), table.String())

	table.rows[1].failed = false
	require.Contains(t, table.String(), "passed  all", "no test has failed")

	table.failed = true
	require.Contains(t, table.String(), "FAILED  all", "a check of the whole run has failed")
}
