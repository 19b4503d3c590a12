// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestTerminal_Hang(t *testing.T) {
	t.Parallel()

	text := strings.TrimSpace(strings.Repeat("word ", 30))
	require.Equal(t, text, terminal{}.hang(39, text), "a file has one line for each result")

	for _, width := range []int{60, 80, 200} {
		lines := strings.Split(terminal{width: width}.hang(39, text), "\n")
		require.Equal(t, strings.Fields(text), strings.Fields(strings.Join(lines, " ")))
		require.LessOrEqual(t, 39+utf8.RuneCountInString(lines[0]), width)

		for _, line := range lines[1:] {
			require.True(t, strings.HasPrefix(line, strings.Repeat(" ", hangingIndent)+"word"))
			require.LessOrEqual(t, utf8.RuneCountInString(line), width)
		}
	}
}

func TestTerminal_Paint(t *testing.T) {
	t.Parallel()

	on := terminal{width: 80, colored: true}
	require.Equal(t, "error   ", terminal{}.level("error"))
	require.Equal(t, "\x1b[31;1merror   \x1b[0;22m", on.level("error"))
	require.Contains(t, on.level("warning"), "\x1b[33m")
	require.Contains(t, on.level("ok"), "\x1b[32m")
	require.Contains(t, on.heading("CAUSE Unschedulable"), "\x1b[31;1m")
	require.Contains(t, on.heading("SUSPECTED CAUSE Unschedulable"), "\x1b[33;1m")
	require.Contains(t, on.heading("NO CAUSE FOUND"), "\x1b[32;1m")
	require.Equal(t, "NO CAUSE FOUND", terminal{}.heading("NO CAUSE FOUND"))
	require.Equal(t, terminal{}, terminalOf(&bytes.Buffer{}))
}

func TestReflowed(t *testing.T) {
	t.Parallel()

	const long = "A paragraph of several words\nin two lines.\n\nAnother one:\n  0  a row of a table that stays whole\n"

	require.Equal(t, "A paragraph of several\nwords in two lines.\n\nAnother one:\n  0  a row of a table that stays whole", reflowed(long, 25))
}
