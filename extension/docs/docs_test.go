// Package docs tests the pages of the extension. Links are tested with those of the driver.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldTable requires that the tests exist that fields.md names.
func TestFieldTable(t *testing.T) {
	t.Parallel()

	var sources strings.Builder

	for _, pattern := range []string{"../pkg/*/*/*_test.go", "../pkg/*/*/*/*_test.go", "../test/integration/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)

		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			sources.Write(content)
		}
	}

	page, err := os.ReadFile("fields.md")
	require.NoError(t, err)

	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(page), -1) {
		require.Contains(t, sources.String(), "func "+name+"(")
	}
}
