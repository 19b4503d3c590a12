package statustext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns a stranger's text as a terminal may show it: in one line, without what moves the cursor or turns the direction of
// letters, and of at most MaxLength bytes.
func Printable(text string) string {
	// The end of what is far too long need not be looked at: a character of at most four bytes becomes one of at least one.
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
