// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithKept(t *testing.T) {
	t.Parallel()

	const table = "| key | verbs | text | code |\n|---|---|---|---|\n| `a` | get | run `x \\| y` | old |\n| `a` | | | none |\n| `b` | get | text | c |\n"

	for name, tc := range map[string]struct {
		reason    string
		row, want []string
	}{
		"Kept":    {"text remains, other cells are new", []string{"`a`", "get", Kept, "new"}, []string{"`a`", "get", "run `x \\| y`", "new"}},
		"Empty":   {"text may be empty", []string{"`a`", "", Kept, "new"}, []string{"`a`", "", "", "new"}},
		"Missing": {"a new row has no text", []string{"`a`", "list", Kept, "new"}, []string{"`a`", "list", Kept, "new"}},
		"Prefix":  {"cells are compared as a whole", []string{"`a`", "ge", Kept, "new"}, []string{"`a`", "ge", Kept, "new"}},
		"Changed": {"a row with a unique key keeps its text", []string{"`b`", "list", Kept, "new"}, []string{"`b`", "list", "text", "new"}},
		"None":    {"a row without text of the page", []string{"`a`", "get"}, []string{"`a`", "get"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, withKept(tc.row, table), tc.reason)
		})
	}

	require.Equal(t, "| `a` | get | run `x \\| y` | |\n", line([]string{"`a`", "get", "run `x \\| y`", ""}))
}
