// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// host matches a host name with a domain, or an IP address, in lower case.
const host = `(?:(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]+\])`

// contexts match what is shown of a line beside its sign, in lower case: the first group. Each consists of words of
// known programs, and of names in their fixed positions. Nothing else of the line is shown: a guest prints the
// output of scripts, and no list of patterns recognizes all secrets.
var contexts = []*regexp.Regexp{
	// The program, as syslog and cloud-init write it.
	regexp.MustCompile(`^(?:\[ *[\d.]+\] +)?([a-z][a-z-]{0,30}\[\d+\]):`),
	// Go's network library, the resolvers, and their reasons.
	regexp.MustCompile(`\b(dial tcp ` + host + `:\d{1,5}\b)`),
	regexp.MustCompile(`\b(lookup ` + host + `)[ :]`),
	regexp.MustCompile(`\b(?:resolving|resolve host:?) '?(` + host + `)(?:['";, ]|$)`),
	regexp.MustCompile(`: (unauthorized|forbidden|eof|not found|i/o timeout|no such host|no such file or directory|permission denied|` +
		`(?:connect: )?connection (?:refused|reset by peer)|(?:connect: )?no route to host|context deadline exceeded|` +
		`[45]\d\d (?:unauthorized|forbidden|not found|too many requests|internal server error|bad gateway|service unavailable))\b`),
	// Go (crypto/x509).
	regexp.MustCompile(`\b(current time [\dt:+z-]{20,25} is (?:before|after) [\dt:+z-]{20,25})(?:[" ]|$)`),
	// The names of images.
	regexp.MustCompile(`\b(?:image|reference) \\?"(` + host + `(?::\d{1,5})?(?:/[a-z0-9._-]+)+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?)\\?"`),
	// systemd, cloud-init, the kernel.
	regexp.MustCompile(`\b([a-z][a-z@-]{0,40}\.(?:service|mount|socket|target|device))\b`),
	regexp.MustCompile(`\b(dev (?:vd|sd)[a-z]{1,2}\d{0,3})\b`),
	regexp.MustCompile(`(/dev/(?:vd|sd)[a-z]{1,2}\d{0,3}|\b(?:part)?uuid=[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`),
	regexp.MustCompile(`\b(killed process \d+ \([a-z][a-z-]{0,15}\))`),
}

var (
	// addresses matches URLs.
	addresses = regexp.MustCompile(`https?://[^\s"'\\<>]+`)
	// authority matches the host of a URL, with its port.
	authority = regexp.MustCompile(`^` + host + `(?::\d{1,5})?$`)
)

// span is a part of a line.
type span struct{ begin, end int }

// excerpt returns the parts of a line that are shown: the sign, and its context.
func excerpt(l *line, sign *regexp.Regexp) string {
	parts := signIn(l, sign)

	for _, context := range contexts {
		if at := context.FindStringSubmatchIndex(l.words); at != nil {
			parts = append(parts, span{at[2], at[3]})
		}
	}

	if at := addresses.FindStringIndex(l.words); at != nil {
		parts = append(parts, serverIn(l.words, at[0], at[1])...)
	}

	return join(l.text, parts)
}

// signIn returns the groups of a sign that has any: what is between them is not a part of it.
func signIn(l *line, sign *regexp.Regexp) []span {
	at := sign.FindStringSubmatchIndex(l.words)

	var parts []span

	for i := 2; i+1 < len(at); i += 2 {
		if at[i] >= 0 {
			parts = append(parts, span{at[i], at[i+1]})
		}
	}

	if len(parts) == 0 && at != nil {
		parts = []span{{at[0], at[1]}}
	}

	return parts
}

// serverIn returns the scheme, the host and the port of a URL, unless it may contain credentials.
func serverIn(words string, begin, end int) []span {
	server, err := url.Parse(words[begin:end])
	if err != nil || strings.Contains(words[begin:end], "@") || !authority.MatchString(server.Host) {
		return nil
	}

	return []span{{begin, begin + len(server.Scheme) + len(schemeEnd) + len(server.Host)}}
}

// join returns parts of a text in their order, with a sign of omission between them.
func join(text string, parts []span) string {
	slices.SortFunc(parts, func(a, b span) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })

	var b strings.Builder

	end := 0

	for i, part := range parts {
		switch gap := text[end:max(part.begin, end)]; {
		case i == 0 || part.end <= end || gap == "":
		case strings.Trim(gap, " :") == "":
			b.WriteString(gap)
		default:
			b.WriteString(" " + hidden + " ")
		}

		if begin := max(part.begin, end); part.end > begin {
			shown := strings.TrimRight(text[begin:part.end], " ")
			b.WriteString(shown)

			end = begin + len(shown)
		}
	}

	return b.String()
}

// lower returns a text with its ASCII letters in lower case, and of the same length.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + ('a' - 'A')
		}

		return r
	}, text)
}
