package integration

import "strings"

// replace replaces a substring that must exist, since a test with an ineffective
// change would prove nothing.
func replace(text, old, with string) string {
	if !strings.Contains(text, old) {
		panic("the text lacks " + old)
	}

	return strings.ReplaceAll(text, old, with)
}
