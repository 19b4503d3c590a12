// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// TestNewCommand requires the command to have the flags of the chart.
func TestNewCommand(t *testing.T) {
	t.Parallel()

	template, err := os.ReadFile("../../charts/internal/seed-controlplane/templates/_pod.tpl")
	require.NoError(t, err)

	command := newCommand(logr.Discard())
	found := 0

	for _, flag := range strings.Fields(string(template)) {
		if name, _, is := strings.Cut(strings.TrimPrefix(flag, "--"), "="); is && strings.HasPrefix(flag, "--") {
			require.NotNil(t, command.Flags().Lookup(name), name)

			found++
		}
	}

	require.Equal(t, 4, found)
	require.Equal(t, "/var/run/secrets/provider", command.Flags().Lookup("credentials").DefValue)
}
