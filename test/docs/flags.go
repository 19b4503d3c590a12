// Package docs compares the pages of docs with the programs. The programs' own tests call it; it
// must not know the programs.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// flagRow matches a row of a table of flags: its name and its default.
var flagRow = regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)` \\| ([^|]*)\\|")

// RequireFlags requires that the section of docs/flags.md with this heading has a row for each
// flag, with its default, and no other rows. The column is empty for a flag without a default, or
// with an empty list.
func RequireFlags(t require.TestingT, heading string, flags *pflag.FlagSet) {
	text := section(t, "flags.md", heading)
	documented := map[string]string{}
	defined := map[string]string{}

	for _, row := range flagRow.FindAllStringSubmatch(text, -1) {
		documented[row[1]] = strings.TrimSpace(row[2])
	}

	flags.VisitAll(func(f *pflag.Flag) {
		defined[f.Name] = strings.Trim(f.DefValue, "[]")
	})

	require.Equal(t, defined, documented, "docs/flags.md, %s", heading)
}

// section returns the text below a heading of the second level.
func section(t require.TestingT, page, heading string) string {
	_, self, _, ok := runtime.Caller(0)
	require.True(t, ok)

	raw, err := os.ReadFile(filepath.Join(filepath.Dir(self), "..", "..", "docs", page))
	require.NoError(t, err)

	_, text, found := strings.Cut(string(raw), "\n## "+heading+"\n")
	require.True(t, found, "%s has no section %q", page, heading)

	text, _, _ = strings.Cut(text, "\n## ")

	return text
}
