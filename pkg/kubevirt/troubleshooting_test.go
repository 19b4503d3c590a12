package kubevirt

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	machinecodes "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// tokenRow matches a row of docs/troubleshooting.md: its token, and the last two of its columns.
var tokenRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.+\\| (\\w+) \\| (\\w+) \\|$")

// retryRow matches a row of its table of retries: a machine code, and when it is tried again after
// each kind of call.
var retryRow = regexp.MustCompile(`(?m)^\| (\w+) \| ([\w ]+) \| ([\w ]+) \| ([\w ]+) \|$`)

// TestTroubleshootingTellsTheRetries compares the page with the code.
func TestTroubleshootingTellsTheRetries(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)

	want := map[string]retry{unknown.code.String(): unknown.retry}
	for _, m := range meanings {
		want[m.code.String()] = m.retry
	}

	periods := map[string]machineutils.RetryPeriod{
		"at once": 0, "5 s": machineutils.ShortRetry, "3 min": machineutils.MediumRetry, "10 min": machineutils.LongRetry,
	}

	got := map[string]retry{}

	for _, row := range retryRow.FindAllStringSubmatch(string(page), -1) {
		for _, period := range row[2:] {
			require.Contains(t, periods, period, row[1])
		}

		got[row[1]] = retry{create: periods[row[2]], initialize: periods[row[3]], remove: periods[row[4]]}
	}

	require.Equal(t, want, got)
}

// remedyRow matches a row of docs/troubleshooting.md: its token and its remedy.
var remedyRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|.+\\| ([^|]+) \\| \\w+ \\| \\w+ \\|$")

// TestTroubleshootingHasTheRemedies compares the remedies of the operator's commands with the page.
func TestTroubleshootingHasTheRemedies(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)

	told := map[string]string{}
	for _, row := range remedyRow.FindAllStringSubmatch(string(page), -1) {
		told[row[1]] = strings.ReplaceAll(row[2], "`", "")
	}

	want := map[string]string{unknown.reason: told[unknown.reason], TokenVanished: told[TokenVanished]}
	for _, m := range meanings {
		want[m.reason] = told[m.reason]
	}

	require.NotContains(t, want, "")
	require.Equal(t, want, remedies)
}

// TestTroubleshootingIsComplete compares the page with the code: each token has its row, with its
// code, and each row its token.
func TestTroubleshootingIsComplete(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)

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

	gardener := map[string]string{}
	for code, tokens := range reasons.GardenerCodes() {
		for _, token := range tokens {
			gardener[token] = code
		}
	}

	for _, row := range tokenRow.FindAllStringSubmatch(string(page), -1) {
		token, code := row[1], row[2]

		require.Contains(t, codes, token, "the page has a token, or has it twice, that the code does not have")
		require.Equal(t, codes[token], code, token)
		require.Equal(t, cmp.Or(gardener[token], "none"), row[3], token)
		delete(codes, token)
		delete(gardener, token)
	}

	require.Empty(t, gardener, "tokens of api/reasons that the page does not have")
	require.Empty(t, codes, "tokens without a row in docs/troubleshooting.md")
}
