// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
	tables "github.com/gardener/machine-controller-manager-provider-kubevirt/test/docs"
)

var (
	section = regexp.MustCompile(`(?m)^## (.+)$`)
	// message matches a message in the first cell of a row.
	message = regexp.MustCompile("(?m)^\\| `([^`|]+)`")
	// verb matches a verb of fmt in the source code.
	verb = regexp.MustCompile(`%[svqd]`)
)

// TestGardenerCodes_TokensInDocs writes the tokens of each error code. Their remedies are in the error itself.
func TestGardenerCodes_TokensInDocs(t *testing.T) {
	t.Parallel()

	sections := sectionsOf(content(t, "usage/troubleshooting.md"))

	for code, tokens := range reasons.GardenerCodes() {
		require.Contains(t, sections, code)
		tables.RequireTable(t, troubleshootingPage, code, []string{"tokens"}, [][]string{{"`" + strings.Join(tokens, "`, `") + "`"}})
	}
}

// sectionsOf returns the sections of a page by their headings.
func sectionsOf(page string) map[string]string {
	sections := map[string]string{}
	headings := section.FindAllStringSubmatchIndex(page, -1)

	for i, heading := range headings {
		end := len(page)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}

		sections[page[heading[2]:heading[3]]] = page[heading[1]:end]
	}

	return sections
}

// TestMessages requires that the messages in the tables of error codes exist in the code.
func TestMessages(t *testing.T) {
	t.Parallel()

	code := verb.ReplaceAllString(content(t, "../pkg/*/*.go", "../pkg/*/*/*.go"), "…")
	found := 0

	for heading, text := range sectionsOf(content(t, "usage/troubleshooting.md")) {
		if heading == "Symptoms" {
			continue
		}

		text, _, _ = strings.Cut(text, "<!-- BEGIN generated ")

		for _, row := range message.FindAllStringSubmatch(text, -1) {
			for _, part := range strings.Split(row[1], "…") {
				require.Contains(t, code, strings.Trim(part, " ,;:"), row[1])
			}

			found++
		}
	}

	require.Positive(t, found)
}
