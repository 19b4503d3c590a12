// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"
	"strings"
)

const (
	// schemeEnd identifies a URL in a text.
	schemeEnd    = "://"
	alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// replaceURLs replaces every URL. It passes the scheme and the rest to replace. It reads each byte
// a bounded number of times, because its input is untrusted.
func replaceURLs(words string, replace func(scheme, rest string) string) string {
	var b strings.Builder

	for {
		i := strings.Index(words, schemeEnd)
		if i < 0 {
			b.WriteString(words)

			return b.String()
		}

		start := len(strings.TrimRight(words[:i], alphanumeric))
		rest := i + len(schemeEnd)
		end := rest + urlLength(words[:start], words[rest:])

		b.WriteString(words[:start])
		b.WriteString(replace(words[start:rest], words[rest:end]))

		words = words[end:]
	}
}

// urlLength returns the length of a URL: up to the quotation mark that closes the one before it,
// because Go quotes a URL whatever its content, or otherwise up to the next space.
func urlLength(before, rest string) int {
	unquoted, quoted := strings.CutSuffix(before, `"`)
	if quoted {
		// In a nested quotation, the quotation marks have backslashes, too: those
		// with more belong to the URL.
		return quotationLength(rest, len(unquoted)-len(strings.TrimRight(unquoted, `\`)))
	}

	if end := strings.IndexAny(rest, " \t\r\n"); end >= 0 {
		return end
	}

	return len(rest)
}

// quotationLength returns the end of a quotation whose mark has depth backslashes. An unclosed
// quotation ends with the text.
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

// withoutURLs removes URLs, so that only the words of the component are left: a server name may be
// any word.
func withoutURLs(words string) string {
	return replaceURLs(words, func(string, string) string { return "" })
}

// parts matches the parts that net/url quotes of a URL that it cannot parse: they may belong
// to a password, if it has a character that is not allowed in a URL.
var parts = regexp.MustCompile(`(?s)(invalid port) \\*".*?\\*" (after host)|(invalid URL escape) \\*".{1,9}?\\*"`)

// withoutCredentials removes the parts of all URLs that contain credentials and signatures:
// the user with the password, and the query.
func withoutCredentials(words string) string {
	words = replaceURLs(words, func(scheme, rest string) string { return scheme + public(rest) })

	return parts.ReplaceAllString(words, "$1$3 $2")
}

// hidden replaces a text that may contain credentials.
const hidden = "…"

// digest matches the end of an image reference, whose at sign does not follow a user.
var digest = regexp.MustCompile(`@sha(256|384|512):[0-9a-fA-F]+$`)

// public returns the part of a URL that may be shown, without its scheme. Passwords may be
// unescaped, with a slash, question mark or at sign: when in doubt, more is removed.
func public(rest string) string {
	path := rest
	query := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path = rest[:i]
		query = rest[i:]
	}

	host, _, slashed := strings.Cut(path, "/")
	if strings.Contains(query, "@") && (!slashed || strings.ContainsAny(host, ":@")) {
		return hidden
	}

	reference := digest.FindString(path)
	path = strings.TrimSuffix(path, reference)

	at := strings.LastIndex(path, "@")
	if at >= 0 && strings.Contains(path[:at], "/") {
		return hidden + path[at:] + reference
	}

	return path[at+1:] + reference
}
