// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	// assigned matches a secret with its name, as configurations, command lines and HTTP headers write it.
	assigned = regexp.MustCompile(`(?i)((?:pass(?:wor|phr|w)?\w*|pwd|token\w*|\w*secret\w*|\w*(?:api|private|access)_?key\w*|credentials?|authorization)"?'?\s*(?:[:=]|\s--?)\s*"?'?` +
		`(?:(?:bearer|basic)\s+)?|\bbearer\s+|--(?:token|password|certificate-key)\s+)[^\s"',;]+`)
	// account matches cloud-init's list of new passwords: a user and a password, and nothing else.
	account = regexp.MustCompile(`^(.*\]:\s*)?([a-z_][\w-]*):\S+$`)
	// bootstrapToken matches the tokens with which nodes join.
	bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	// encoded matches what may be a key, a token or a certificate in base64 or hexadecimal.
	encoded = regexp.MustCompile(`[A-Za-z0-9+/=_-]{20,}`)
	// key matches the beginning of a key in PEM, in one line.
	pem = regexp.MustCompile(`-----BEGIN [A-Z ]+-----.*`)
)

// withoutSecrets returns a guest's line without what looks like a secret: the guest prints the output of
// cloud-init, and of the scripts in its user data.
func withoutSecrets(text string) string {
	text = pem.ReplaceAllString(text, hidden)
	text = assigned.ReplaceAllString(text, "${1}"+hidden)
	text = account.ReplaceAllString(text, "${1}${2}:"+hidden)
	text = bootstrapToken.ReplaceAllString(text, hidden)

	return encoded.ReplaceAllStringFunc(text, func(word string) string {
		if isRandom(word) {
			return hidden
		}

		return word
	})
}

// isRandom reports whether a long word mixes letters and digits as keys do, and names and paths do not.
func isRandom(word string) bool {
	mixed := strings.ContainsFunc(word, unicode.IsUpper) && strings.ContainsFunc(word, unicode.IsLower) && strings.ContainsFunc(word, unicode.IsDigit)
	hexadecimal := strings.Trim(word, "0123456789abcdefABCDEF") == "" && strings.ContainsFunc(word, unicode.IsDigit)

	return mixed || (hexadecimal && len(word) >= 32)
}
