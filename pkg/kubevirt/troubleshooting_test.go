// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	machinecodes "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

// TestMeanings_RetriesInDocs writes the table of retries: when MCM calls again, by machine code.
func TestMeanings_RetriesInDocs(t *testing.T) {
	t.Parallel()

	periods := map[machineutils.RetryPeriod]string{
		0: "at once", machineutils.ShortRetry: "5 s", machineutils.MediumRetry: "3 min", machineutils.LongRetry: "10 min",
	}

	retries := map[string][3]string{}

	for _, m := range append(slices.Clone(meanings), unknown) {
		code := m.code.String()
		row := [3]string{periods[m.retry.create], periods[m.retry.initialize], periods[m.retry.remove]}
		require.NotContains(t, row, "", "a period without a text")

		if old, known := retries[code]; known {
			require.Equal(t, old, row, "a code has one row")
		}

		retries[code] = row
	}

	codes := map[[3]string][]string{}
	for _, code := range slices.Sorted(maps.Keys(retries)) {
		codes[retries[code]] = append(codes[retries[code]], code)
	}

	var rows [][]string
	for row, same := range codes {
		rows = append(rows, append([]string{strings.Join(same, ", ")}, row[:]...))
	}

	slices.SortFunc(rows, slices.Compare)
	docs.RequireTable(t, "docs/troubleshooting.md", "retries",
		[]string{"machine codes", "after GetMachineStatus or CreateMachine", "after InitializeMachine", "after DeleteMachine"}, rows)
}

// remedyRow matches a row of docs/troubleshooting.md: its token and its remedy.
var remedyRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.+\\| ([^|]+) \\| \\w+ \\|$")

// TestDefaultRemedies_Troubleshooting compares the remedies of the operator's commands with the page.
func TestDefaultRemedies_Troubleshooting(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)

	told := map[string]string{}
	for _, row := range remedyRow.FindAllStringSubmatch(string(page), -1) {
		told[row[1]] = strings.ReplaceAll(row[2], "`", "")
	}

	remedies := defaultRemedies("the Secret of the MachineClass")
	for _, reason := range []string{"NotScheduledYet", "MachineNotFound"} {
		require.NotContains(t, remedies, reason)
		remedies[reason] = noAction
	}

	for _, m := range meanings {
		require.Contains(t, remedies, m.reason)
	}

	for reason, remedy := range remedies {
		require.Equal(t, strings.ToUpper(remedy[:1])+remedy[1:]+".", told[reason], reason)
	}
}

// TestMeaningOf_CodesInDocs writes the codes into the tables of reasons: each reason has one row.
func TestMeaningOf_CodesInDocs(t *testing.T) {
	t.Parallel()

	codes := map[string]string{
		unknown.reason: unknown.code.String(), driverrpc.TokenUnavailable: machinecodes.Unavailable.String(),
		driverrpc.TokenInvalid: machinecodes.Unavailable.String(),
		TokenVanished:          machinecodes.NotFound.String(),
	}
	for _, m := range meanings {
		codes[m.reason] = m.code.String()
	}

	for token, code := range ControlTokens() {
		codes[token] = cmp.Or(code, "none")
	}

	for _, reason := range diagnose.Reasons() {
		codes[reason] = meaningOf(diagnose.Kind(reason)).code.String()
	}

	gardener := map[string]bool{}
	for _, f := range reasons.Failures() {
		gardener[f.Token] = true
	}

	for _, section := range []string{
		"Capacity and quota",
		"Refused creations",
		"Objects that KubeVirt cannot create",
		"Volumes and images",
		"Machines that do not start",
		"Guests that do not join",
		"Machines that cannot leave their node",
		"In the control cluster",
		"Between the machine controller, the driver and the provider cluster",
	} {
		var rows [][]string

		for _, key := range docs.Keys(t, "docs/troubleshooting.md", section) {
			token := strings.Trim(key, "`")
			require.Contains(t, codes, token, "the page has a token, or has it twice, that the code does not have")
			rows = append(rows, []string{key, docs.Kept, docs.Kept, docs.Kept, codes[token]})
			delete(codes, token)
			delete(gardener, token)
		}

		docs.RequireTable(t, "docs/troubleshooting.md", section,
			[]string{"token", "meaning", "where to look", "remedy", "machine code"}, rows)
	}

	require.Empty(t, gardener, "tokens of api/reasons that the page does not have")
	require.Empty(t, codes, "tokens without a row in docs/troubleshooting.md")
}
