// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// needle is one encoding of a secret.
type needle struct {
	name string
	text string
}

// needlesOf returns the searched encodings of a secret. Base64 depends on the surrounding text, so
// there are three variants of it, without the digits at both ends.
func needlesOf(name, secret string) []needle {
	quoted, _ := json.Marshal(secret) //nolint:errchkjson // Strings can always be encoded.

	needles := []needle{
		{name, secret},
		{name + " in JSON", strings.Trim(string(quoted), `"`)},
		{name + " in a Go string", strings.Trim(fmt.Sprintf("%q", secret), `"`)},
		{name + " as bytes", strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]")},
		{name + " as Go bytes", strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(secret)), "[]byte{"), "}")},
		{name + " in hex", hex.EncodeToString([]byte(secret))},
		{name + " in HEX", strings.ToUpper(hex.EncodeToString([]byte(secret)))},
		{name + " in a URL's query", url.QueryEscape(secret)},
		{name + " in a URL's path", url.PathEscape(secret)},
	}
	needles = append(needles, inBase64(name, secret)...)

	// Data of a Secret that holds a kubeconfig, whose own data are already in base64.
	for _, once := range inBase64(name, secret) {
		needles = append(needles, inBase64(once.name+", and again", once.text)...)
	}

	return needles
}

func inBase64(name, secret string) []needle {
	var needles []needle

	for kind, encoding := range map[string]*base64.Encoding{"base64": base64.StdEncoding, "URL-safe base64": base64.URLEncoding} {
		for before, skip := range []int{0, 2, 3} {
			whole := (before + len(secret)) / 3 * 4
			text := encoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))[skip:whole]
			needles = append(needles, needle{fmt.Sprintf("%s in %s after %d bytes", name, kind, before), text})
		}
	}

	return needles
}

// known reports whether machine-controller-manager itself, not the driver, logged this request or
// response body. Its control cluster clients are plain client-go clients, which log all bodies at
// -v=8 and above, including the Secrets that it reads and adds finalizers to. The driver's Secrets
// are in other namespaces. Gardener runs both with -v=3. There are no other exceptions: at -v=4
// and above machine-controller-manager also logs the bootstrap tokens that it creates
// (userdata.go), but no user data.
func known(body []byte) bool { return controlSecret.Match(body) }

// controlSecret matches a Secret, or a list of Secrets, in a shoot's namespace in the control
// cluster (field 3 of its metadata).
var controlSecret = regexp.MustCompile("(?s)^k8s\x00.{2,4}\x02v1\x12.Secret(List)?\x12.*\x1a.shoot--lab--")

// dump is a non-text body that client-go logs in hex, 16 bytes a line.
type dump struct {
	line int
	body []byte
}

func dumpsIn(content []byte) []dump {
	var (
		dumps  []dump
		number int
		inside bool
	)

	for line := range bytes.Lines(content) {
		number++

		digits, _, _ := bytes.Cut(line, []byte("  |"))

		fields := bytes.Fields(digits)
		if len(fields) < 2 || len(fields) > 17 || len(fields[0]) != 8 {
			inside = false

			continue
		}

		row, err := hex.DecodeString(string(bytes.Join(fields[1:], nil)))
		if err != nil {
			inside = false

			continue
		}

		if !inside {
			dumps = append(dumps, dump{line: number})
			inside = true
		}

		last := &dumps[len(dumps)-1]
		last.body = append(last.body, row...)
	}

	return dumps
}

// finding is the location of a leaked secret. It does not include the secret.
type finding struct {
	file   string
	line   int
	needle string
}

// search counts the searched input.
type search struct {
	needles             []needle
	files, lines, dumps int
	size                int64
	excused             int
	findings            []finding
}

func newSearch(needles []needle) *search {
	slices.SortStableFunc(needles, func(a, b needle) int { return strings.Compare(a.text, b.text) })

	return &search{needles: slices.CompactFunc(needles, func(a, b needle) bool { return a.text == b.text })}
}

// in searches all files that match a pattern.
func (s *search) in(pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}

	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}

		s.files++
		s.lines += bytes.Count(content, []byte("\n"))
		s.size += int64(len(content))
		s.inContent(file, content)
	}

	return nil
}

func (s *search) inContent(file string, content []byte) {
	dumps := dumpsIn(content)
	s.dumps += len(dumps)

	for _, n := range s.needles {
		text := []byte(n.text)

		for from := 0; ; from += len(text) {
			at := bytes.Index(content[from:], text)
			if at < 0 {
				break
			}

			from += at
			s.findings = append(s.findings, finding{file, 1 + bytes.Count(content[:from], []byte("\n")), n.name})
		}

		for _, d := range dumps {
			switch {
			case !bytes.Contains(d.body, text):
			case known(d.body):
				s.excused++
			default:
				s.findings = append(s.findings, finding{file, d.line, n.name})
			}
		}
	}
}

// String implements fmt.Stringer.
func (s *search) String() string {
	var b strings.Builder

	fmt.Fprintf(&b, "secrets: %d needles in %d files, %d lines, %d KiB, %d bodies in hex: %d found, and %d more in machine-controller-manager's own bodies",
		len(s.needles), s.files, s.lines, s.size>>10, s.dumps, len(s.findings), s.excused)

	for i, f := range s.findings {
		if i == 20 {
			fmt.Fprintf(&b, "\n  and %d more", len(s.findings)-i)

			break
		}

		fmt.Fprintf(&b, "\n  %s:%d: %s", f.file, f.line, f.needle)
	}

	return b.String()
}
