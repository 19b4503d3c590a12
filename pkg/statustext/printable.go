// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package statustext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns an untrusted text in a form that is safe for terminals: on one
// line, without characters that move the cursor or change the direction of text,
// and with at most MaxLength bytes.
func Printable(text string) string {
	// The end of a very long text is not needed: a character has at most four bytes, and its
	// replacement at least one.
	const longest = utf8.UTFMax * (MaxLength + 1)
	if len(text) > longest {
		text = text[:longest]
	}

	return cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}

		return ' '
	}, text), MaxLength)
}
