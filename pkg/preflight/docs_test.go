package preflight_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocsListTheChecks compares the table in docs/preflight.md with the checks and their order.
func TestDocsListTheChecks(t *testing.T) {
	t.Parallel()

	listed := namesIn(t, "../../docs/preflight.md", "(?m)^\\| `([a-z-]+)` \\|")
	require.NotEmpty(t, listed)
	require.Equal(t, namesIn(t, "results.go", `(?m)^\tcheck\w+ += "([a-z-]+)"$`), listed)
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
