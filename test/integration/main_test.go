// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTopicPackages compares the packages that must report to the suite with the topics in
// docs/development.md. Four of those run by themselves.
func TestTopicPackages(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/development.md")
	require.NoError(t, err)

	_, table, _ := strings.Cut(string(page), "| topic | proof |\n")
	table, _, _ = strings.Cut(table, "\n\n")

	var topics []string

	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		require.DirExists(t, row[1])

		if !slices.Contains([]string{"bench", "guest", "node", "provider", "upgrade"}, row[1]) {
			topics = append(topics, row[1])
		}
	}

	found, err := topicPackages(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, topics, found)
}
