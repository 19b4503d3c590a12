// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewClient_DocsExample compares the client in docs/grpc.md with the compiled one.
func TestNewClient_DocsExample(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/grpc.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)

	_, shown, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)

	shown, _, found = strings.Cut(shown, "```\n")
	require.True(t, found)
	require.Contains(t, string(example), shown)
}
