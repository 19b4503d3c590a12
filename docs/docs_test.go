// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs tests the documentation: all links between the repository's pages must have a target,
// and the linter must know every package of the layout.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = ".."

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// inline matches inline code, in which brackets have no meaning.
	inline = regexp.MustCompile("`[^`\n]*`")
	// headless matches the first row of a table that no delimiter row follows.
	headless = regexp.MustCompile(`(?m)(?:\A|\n\n)(\|.*\n)(?:[^|]|\| ?[^ :-]|\z)`)
)

// TestTables requires that each table has a header: the rows behind an empty line are shown as text.
func TestTables(t *testing.T) {
	t.Parallel()

	require.Regexp(t, headless, "\n\n| a |\n| b |\n")

	for _, page := range pages(t) {
		require.Empty(t, headless.FindAllString(prose(t, page), -1), page)
	}
}

// TestLinks follows every link from one page of the repository to another, or to a heading.
func TestLinks(t *testing.T) {
	t.Parallel()

	all := pages(t)
	require.Greater(t, len(all), 5)

	for _, page := range all {
		t.Run(page, func(t *testing.T) {
			t.Parallel()

			text := inline.ReplaceAllString(prose(t, page), "")
			for _, found := range link.FindAllStringSubmatch(text, -1) {
				requireTarget(t, page, found[1])
			}
		})
	}
}

// pages returns the paths of all pages, except those that tests and tools generate.
func pages(t *testing.T) []string {
	t.Helper()

	var found []string

	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			found = append(found, path)
		}

		return nil
	}))

	return found
}

// prose returns a page without its code blocks.
func prose(t *testing.T, page string) string {
	t.Helper()

	raw, err := os.ReadFile(page)
	require.NoError(t, err)

	return fence.ReplaceAllString(string(raw), "")
}

func requireTarget(t *testing.T, page, target string) {
	t.Helper()

	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}

	path, anchor, _ := strings.Cut(target, "#")

	to := page
	if path != "" {
		to = filepath.Join(filepath.Dir(page), path)
	}

	_, err := os.Stat(to)
	require.NoError(t, err, "%s links to %s, which does not exist", page, target)

	if anchor != "" {
		require.Contains(t, anchors(t, to), anchor, "%s links to %s, which has no such heading", page, target)
	}
}

// anchors returns the anchors of a page's headings, as code hosts generate them.
func anchors(t *testing.T, page string) []string {
	t.Helper()

	var names []string

	for _, found := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, found[1]))
	}

	return names
}
