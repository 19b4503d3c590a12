package integration

import "strings"

// replace changes a text that must hold what is replaced: a test whose change did nothing would prove nothing.
func replace(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic("the text lacks " + old)
	}

	return strings.ReplaceAll(text, old, with)
}
