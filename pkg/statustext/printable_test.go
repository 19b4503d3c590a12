// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package statustext_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

func FuzzPrintable(f *testing.F) {
	for _, text := range []string{"", "plain [text]", "\x1b[2J\r\n", "a\u202eb", "\xff", strings.Repeat("ö", statustext.MaxLength), strings.Repeat("\n", 3<<20)} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		got := statustext.Printable(text)

		require.Equal(t, got, statustext.Printable(got))
		require.LessOrEqual(t, len(got), statustext.MaxLength)
		require.Equal(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }))

		if len(text) <= statustext.MaxLength && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
			require.Equal(t, text, got)
		}
	})
}
