package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTopicPackages compares the packages that must report to the suite with the topics in the
// README. Four of those run by themselves.
func TestTopicPackages(t *testing.T) {
	t.Parallel()

	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)

	var topics []string

	for _, row := range regexp.MustCompile(`(?m)^\| \[(\w+)\]\((\w+)\) \|`).FindAllStringSubmatch(string(readme), -1) {
		require.Equal(t, row[1], row[2])
		require.DirExists(t, row[2])

		if !slices.Contains([]string{"bench", "guest", "provider", "upgrade"}, row[1]) {
			topics = append(topics, row[1])
		}
	}

	found, err := topicPackages(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, topics, found)
}
