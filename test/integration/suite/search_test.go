// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCanarySearchFinds plants a secret in every searched encoding, with arbitrary text around it.
func TestCanarySearchFinds(t *testing.T) {
	t.Parallel()

	const secret = "c4n4ry+planted/0c1d2e3f=&4a"

	again := func(raw string) string { return base64.StdEncoding.EncodeToString([]byte("y" + raw + "yy")) }
	plants := map[string]func(around string) string{
		"raw":      func(around string) string { return around + secret + around },
		"JSON":     func(around string) string { raw, _ := json.Marshal(around + secret); return string(raw) }, //nolint:errchkjson // a string
		"bytes":    func(around string) string { return fmt.Sprintf("%d", []byte(around+secret+around)) },
		"Go bytes": func(around string) string { return fmt.Sprintf("%#v", []byte(around+secret+around)) },
		"hex":      func(around string) string { return fmt.Sprintf("%x", around+secret+around) },
		"HEX":      func(around string) string { return fmt.Sprintf("%X", around+secret+around) },
		"query":    func(around string) string { return url.QueryEscape(around + secret + around) },
		"path":     func(around string) string { return url.PathEscape(around + secret + around) },
		"base64":   func(around string) string { return base64.StdEncoding.EncodeToString([]byte(around + secret + around)) },
		"URL-safe": func(around string) string {
			return base64.RawURLEncoding.EncodeToString([]byte(around + secret + around))
		},
		"twice": func(around string) string {
			return again(base64.StdEncoding.EncodeToString([]byte(around + secret + around)))
		},
	}

	for name, plant := range plants {
		for _, around := range []string{"", "a", "bb", "ccc", "dddd"} {
			file := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.WriteFile(file, []byte("first line\nsecond "+plant(around)+" line\nthird\n"), 0o600))

			s := newSearch(needlesOf("planted", secret))
			require.NoError(t, s.in(file))
			require.NotEmpty(t, s.findings, "%s between %q", name, around)
			require.Equal(t, 2, s.findings[0].line)
			require.NotContains(t, s.String(), secret)
		}
	}
}

// TestCanarySearchExcusesLittle checks that known is narrow.
func TestCanarySearchExcusesLittle(t *testing.T) {
	t.Parallel()

	const secret = "c4n4ry+printed/0c1d2e3f=&4a"

	body := func(kind, namespace string) []byte {
		raw := []byte("k8s\x00\n\x0c\n\x02v1\x12" + string(rune(len(kind))) + kind + "\x12\x20\n\x03abc\x1a" + string(rune(len(namespace))) + namespace + secret)

		return []byte("I1121 15:34:38 1 request.go:1212] \"Response Body\" body=<\n\t" +
			strings.ReplaceAll(strings.TrimSpace(hex.Dump(raw)), "\n", "\n\t") + "\n >\nI1121 next line\n")
	}

	for text, want := range map[string]int{
		string(body("Secret", "shoot--lab--t1")):                                                   0,
		string(body("SecretList", "shoot--lab--t1")):                                               0,
		string(body("Secret", "t1")):                                                               1,
		string(body("ConfigMap", "shoot--lab--t1")):                                                1,
		`body={"kind":"Secret","metadata":{"namespace":"shoot--lab--t1"},"data":"` + secret + `"}`: 1,
	} {
		s := newSearch([]needle{{"printed", secret}})
		s.inContent("log", []byte(text))
		require.Len(t, s.findings, want, text)
		require.Equal(t, 1-want, s.excused, text)
	}
}
