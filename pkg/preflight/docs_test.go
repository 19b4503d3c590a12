package preflight_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/preflight"
)

// TestDocsListTheChecks compares the table in docs/preflight.md with the checks and their order.
func TestDocsListTheChecks(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/preflight.md")
	require.NoError(t, err)

	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}

	require.Equal(t, preflight.Checks(), listed)
}
