package checks_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/preflight/checks"
)

// TestDocsListTheChecks compares the table in docs/preflight.md with the checks and their order.
func TestDocsListTheChecks(t *testing.T) {
	t.Parallel()

	listed := namesIn(t, "../../../docs/preflight.md", "(?m)^\\| `([a-z-]+)` \\|")
	require.NotEmpty(t, listed)
	require.Equal(t, namesIn(t, "results.go", `(?m)^\tcheck\w+ += "([a-z-]+)"$`), listed)
}

// TestIncompatibilities_AreDocumented compares the table in docs/compatibility.md with the pairs that are
// checked.
func TestIncompatibilities_AreDocumented(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)

	_, section, found := strings.Cut(string(text), "### Pairs that do not work")
	require.True(t, found)

	section, _, _ = strings.Cut(section, "\n## ")
	require.Equal(t, len(checks.Incompatibilities), strings.Count(section, "\n| 1."))

	for _, pair := range checks.Incompatibilities {
		require.Contains(t, section, "\n| "+pair[0]+" | "+pair[1]+" | ")
	}
}

// namesIn returns the names that a pattern matches in a file.
func namesIn(t *testing.T, file, pattern string) []string {
	t.Helper()

	text, err := os.ReadFile(file)
	require.NoError(t, err)

	var names []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}

	return names
}
