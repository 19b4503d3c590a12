package diagnose

import (
	"regexp"
	"strings"
)

// schemeEnd is what makes a text an address.
const schemeEnd = "://"

// replaceAddresses replaces every address, given as its scheme and the rest. It looks at each byte a bounded number of times: what it
// reads was written by strangers.
func replaceAddresses(words string, replace func(scheme, rest string) string) string {
	var b strings.Builder

	for {
		i := strings.Index(words, schemeEnd)
		if i < 0 {
			b.WriteString(words)

			return b.String()
		}

		start, rest := schemeStart(words[:i]), i+len(schemeEnd)
		end := rest + addressLength(words[:start], words[rest:])

		b.WriteString(words[:start])
		b.WriteString(replace(words[start:rest], words[rest:end]))

		words = words[end:]
	}
}

func schemeStart(before string) int {
	start := len(before)
	for start > 0 && isAlphanumeric(before[start-1]) {
		start--
	}

	return start
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// addressLength returns how far an address goes: as far as the quotation mark that closes the one before it, which is how Go quotes an
// address whatever is in it, or else as far as the next space.
func addressLength(before, rest string) int {
	unquoted, quoted := strings.CutSuffix(before, `"`)
	if quoted {
		// In a quotation that is quoted itself, the quotation marks have backslashes too: those with more are of the address.
		return quotationLength(rest, len(unquoted)-len(strings.TrimRight(unquoted, `\`)))
	}

	if end := strings.IndexAny(rest, " \t\r\n"); end >= 0 {
		return end
	}

	return len(rest)
}

// quotationLength returns where a quotation ends whose mark has so many backslashes. One that nobody closes has no end.
func quotationLength(rest string, depth int) int {
	backslashes := 0

	for i := range len(rest) {
		switch {
		case rest[i] == '\\':
			backslashes++
		case rest[i] == '"' && backslashes <= depth:
			return i - backslashes
		default:
			backslashes = 0
		}
	}

	return len(rest)
}

// withoutAddresses leaves what the components say themselves: a server's name may be any word.
func withoutAddresses(words string) string {
	return replaceAddresses(words, func(string, string) string { return "" })
}

// parts are what net/url quotes of an address that it cannot parse: of a password, if that has a character that does not belong into
// an address.
var parts = regexp.MustCompile(`(?s)(invalid port) \\*".*?\\*" (after host)|(invalid URL escape) \\*".{1,9}?\\*"`)

// withoutCredentials removes from all addresses that in which credentials and signatures travel: the user with the password, and the
// query.
func withoutCredentials(words string) string {
	words = replaceAddresses(words, func(scheme, rest string) string { return scheme + public(rest) })

	return parts.ReplaceAllString(words, "$1$3 $2")
}

// hidden stands for what may be credentials, or not.
const hidden = "…"

// digest matches the end of an image reference, whose at sign has no user before it.
var digest = regexp.MustCompile(`@sha(256|384|512):[0-9a-fA-F]+$`)

// public returns what may be shown of an address, without its scheme. Passwords may have been written as they are, with a slash,
// question mark or at sign: when in doubt, more is removed.
func public(rest string) string {
	path, query := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path, query = rest[:i], rest[i:]
	}

	host, _, slashed := strings.Cut(path, "/")
	if strings.Contains(query, "@") && (!slashed || strings.ContainsAny(host, ":@")) {
		return hidden
	}

	reference := digest.FindString(path)
	path = strings.TrimSuffix(path, reference)

	user, path, found := cutLast(path, "@")
	if !found {
		return user + reference
	}

	if strings.Contains(user, "/") {
		path = hidden + "@" + path
	}

	return path + reference
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}

	return s[:i], s[i+len(separator):], true
}
